# What the R workers share.

read_npy <- function(path) {  # float64 in C order: the axes come back reversed
  file <- file(path, "rb")
  on.exit(close(file))
  readBin(file, "raw", 8)
  header <- readChar(file, readBin(file, "integer", 1, size = 2, endian = "little"))
  shape <- as.integer(strsplit(sub(".*\\(([^)]*)\\).*", "\\1", header), ", *")[[1]])
  array(readBin(file, "double", prod(shape)), rev(shape))
}
