# glmnet: cv.glmnet on the given folds; the same protocol as cv.py.
suppressPackageStartupMessages({library(glmnet); library(jsonlite)})

source(file.path(dirname(sub("--file=", "", grep("--file=", commandArgs(), value = TRUE))), "npy.R"))

folder <- commandArgs(trailingOnly = TRUE)[1]
at <- function(name) file.path(folder, name)
X <- t(read_npy(at("X.npy")))
y <- as.vector(read_npy(at("y.npy")))
alphas <- as.vector(read_npy(at("lams.npy"))) / length(y)
folds <- as.vector(read_npy(at("folds.npy"))) + 1
request <- fromJSON(at("request.json"), simplifyVector = FALSE)
glmnet.control(fdev = 0, devmax = 1)  # no early end of the path

seconds <- c()
# its ridge penalty is that of y over its deviation
deviation <- sqrt(mean((y - mean(y))^2))
for (k in seq_along(request$settings)) {
  setting <- request$settings[[k]]
  ridge <- setting$model == "ridge"
  common <- list(lambda = if (ridge) alphas * deviation else alphas, alpha = if (ridge) 0 else 1,
                 family = if (setting$model == "logistic") "binomial" else "gaussian", standardize = FALSE,
                 thresh = setting$tol, type.gaussian = setting$type, maxit = 1e9)
  times <- c()
  while (length(times) == 0 || (length(times) < request$most && sum(times) < request$budget)) {
    start <- Sys.time()
    do.call(cv.glmnet, c(list(X, y, foldid = folds), common))
    times <- c(times, as.numeric(Sys.time() - start, units = "secs"))
  }
  seconds <- c(seconds, min(times))
  if (request$coef) {
    output <- file(at(sprintf("coef_%d.bin", k - 1)), "wb")
    for (fold in sort(unique(folds))) {
      train <- folds != fold
      path <- do.call(glmnet, c(list(X[train, ], y[train]), common))$beta
      writeBin(as.vector(as.matrix(path)), output)
    }
    close(output)
  }
  if (sum(times) > request$limit) break
}
reply <- list(version = unbox(paste("glmnet", packageVersion("glmnet"))), seconds = seconds)
writeLines(toJSON(reply, digits = NA), at("reply.json"))
