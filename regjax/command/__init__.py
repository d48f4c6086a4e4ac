"""The command line: a table in, a contest of models on the same folds, a leaderboard and a report out."""
