"""Programs for people: audit, backtest, inspect, produce, tail, watch, the demo."""
