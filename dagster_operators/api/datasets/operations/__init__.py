"""Operations: what a data set is made by, and the optimizer's operator of each."""
