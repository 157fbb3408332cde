"""The names of Spark's functions, in groups as Spark's documentation has them."""

from __future__ import annotations

from typing import Final

_OF_ONE_ROW = """
abs acos acosh add_months aes_decrypt aes_encrypt aggregate array array_append array_compact array_contains array_distinct
array_except array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh base64
bin bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count bitwise_not bround btrim bucket
cardinality cbrt ceil ceiling char char_length character_length coalesce collate collation concat concat_ws contains conv
convert_timezone cos cosh cot count_distinct crc32 create_map csc curdate current_catalog current_database current_date
current_path current_schema current_time current_timestamp current_timezone current_user date_add date_diff date_format
date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear days
decode degrees e element_at elt encode endswith equal_null exists exp expm1 extract factorial filter find_in_set flatten floor
forall format_number format_string from_csv from_json from_unixtime from_utc_timestamp from_xml get get_json_object getbit
greatest hash hex hll_sketch_estimate hll_union hour hours hypot ifnull ilike initcap input_file_block_length
input_file_block_start input_file_name instr is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull java_method
json_array_length json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float
kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double kll_sketch_merge_float
kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float last_day lcase least left length
levenshtein like listagg_distinct ln localtimestamp locate log log10 log1p log2 lower lpad ltrim make_date make_dt_interval
make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8 make_ym_interval map_concat
map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute
month monthname months months_between named_struct nanvl negate negative next_day now nullif nullifzero nvl nvl2 octet_length
overlay parse_json parse_url pi pmod position positive pow power printf product quarter quote radians raise_error rand randn
randstr reduce reflect regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace
regexp_substr repeat replace reverse right rint rlike round rpad rtrim schema_of_csv schema_of_json schema_of_variant
schema_of_xml sec second sentences sequence session_user sha sha1 sha2 shiftleft shiftright shiftrightunsigned shuffle sign
signum sin sinh size slice sort_array soundex split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid
st_srid startswith str_to_map string_agg_distinct struct substr substring substring_index sum_distinct tan tanh
theta_difference theta_intersection theta_sketch_estimate theta_union time_bucket time_diff time_from_micros time_from_millis
time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc timestamp_add timestamp_diff timestamp_micros
timestamp_millis timestamp_seconds to_binary to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz
to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys
transform_values translate trim trunc try_add try_aes_decrypt try_divide try_element_at try_make_interval try_make_timestamp
try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url try_reflect try_subtract
try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8 try_variant_get
tuple_difference_double tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
tuple_union_theta_integer typeof ucase unbase64 unhex uniform unix_date unix_micros unix_millis unix_seconds unix_timestamp
upper url_decode url_encode user validate_utf8 variant_get version weekday weekofyear width_bucket xpath xpath_boolean
xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year years zeroifnull zip_with
"""

AGGREGATES: Final = frozenset({
    "any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k", "approx_top_k_accumulate",
    "approx_top_k_combine", "array_agg", "avg", "bit_and", "bit_or", "bit_xor", "bitmap_and_agg", "bitmap_construct_agg",
    "bitmap_or_agg", "bool_and", "bool_or", "collect_list", "collect_set", "corr", "count", "count_if", "count_min_sketch",
    "covar_pop", "covar_samp", "every", "first", "first_value", "grouping", "grouping_id", "histogram_numeric",
    "hll_sketch_agg", "hll_union_agg", "kll_merge_agg_bigint", "kll_merge_agg_double", "kll_merge_agg_float",
    "kll_sketch_agg_bigint", "kll_sketch_agg_double", "kll_sketch_agg_float", "kurtosis", "last", "last_value", "listagg",
    "max", "max_by", "mean", "measure", "median", "min", "min_by", "mode", "percentile", "percentile_approx", "percentile_cont",
    "percentile_disc", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx",
    "regr_sxy", "regr_syy", "schema_of_variant_agg", "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp",
    "string_agg", "sum", "theta_intersection_agg", "theta_sketch_agg", "theta_union_agg", "try_avg", "try_sum",
    "tuple_intersection_agg_double", "tuple_intersection_agg_integer", "tuple_sketch_agg_double", "tuple_sketch_agg_integer",
    "tuple_union_agg_double", "tuple_union_agg_integer", "var_pop", "var_samp", "variance", "vector_avg", "vector_sum",
})  # fmt: skip
"""One value of many rows."""

RANKINGS: Final = frozenset({
    "cume_dist", "dense_rank", "lag", "lead", "nth_value", "ntile", "percent_rank", "rank", "row_number",
})  # fmt: skip
"""One value of a row and the rows around it: window functions that are no aggregates."""

GENERATORS: Final = frozenset({
    "explode", "explode_outer", "inline", "inline_outer", "json_tuple", "posexplode", "posexplode_outer", "stack",
})  # fmt: skip
"""Several rows of one row."""

NUMBERINGS: Final = frozenset({"monotonically_increasing_id", "spark_partition_id"})
"""Values that say where a row lies in one run."""

SCALARS: Final = frozenset(_OF_ONE_ROW.split())
"""One value of one row."""

BUILT_IN: Final = AGGREGATES | RANKINGS | GENERATORS | NUMBERINGS | SCALARS
"""All of them: no function of the user's own may be called so."""
