as it is
