"""States of samples (nominal, wrong label, bad measurement) and the rates behind them."""
