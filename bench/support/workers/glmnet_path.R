# glmnet: the same protocol as serve.py. Its lambda is lambda/n; its threshold is relative to the null deviance.
suppressPackageStartupMessages({library(glmnet); library(jsonlite)})

source(file.path(dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE))), "npy.R"))

folder <- commandArgs(trailingOnly = TRUE)[1]
at <- function(name) file.path(folder, name)
X <- read_npy(at("X.npy"))
y <- read_npy(at("y.npy"))
lams <- read_npy(at("lams.npy"))
request <- fromJSON(at("request.json"), simplifyVector = FALSE)
glmnet.control(fdev = 0, devmax = 1)  # no early end of the path
n <- dim(X)[2]
problems <- lapply(seq_len(dim(X)[3]), function(b) list(X = t(X[, , b]), y = y[, b], alphas = lams[, b] / n))
rm(X)

solve <- function(problem, setting, count = length(problem$alphas)) {
  family <- switch(if (is.null(setting$family)) "squared" else setting$family,
                   squared = "gaussian", logistic = "binomial", poisson = "poisson")
  type <- if (is.null(setting$type)) "naive" else setting$type  # of the gaussian family only
  glmnet(problem$X, problem$y, family = family, lambda = problem$alphas[seq_len(count)], standardize = FALSE,
         intercept = FALSE, thresh = setting$tol, type.gaussian = type, maxit = 1e9)$beta
}

seconds <- c()
for (k in seq_along(request$settings)) {
  setting <- request$settings[[k]]
  solve(problems[[1]], setting, 5)
  times <- c()
  while (length(times) == 0 || (length(times) < request$most && sum(times) < request$budget)) {
    start <- Sys.time()
    paths <- lapply(problems, solve, setting)
    times <- c(times, as.numeric(Sys.time() - start, units = "secs"))
  }
  output <- file(at(sprintf("coef_%d.bin", k - 1)), "wb")
  for (path in paths) writeBin(as.vector(as.matrix(path)), output)
  close(output)
  seconds <- c(seconds, min(times))
  if (sum(times) > request$limit) break
}
reply <- list(version = unbox(paste("glmnet", packageVersion("glmnet"))), seconds = seconds)
writeLines(toJSON(reply, digits = NA), at("reply.json"))
