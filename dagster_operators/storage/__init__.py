"""Where data lies: roots, locations and access, Parquet files and the Delta log, for all who write and read them."""
