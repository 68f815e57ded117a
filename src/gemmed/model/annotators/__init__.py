"""Several labels a sample: rates of the annotators and the true labels behind them."""
