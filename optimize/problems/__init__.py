"""Problems: the numbers that vary, and the evaluation of members."""
