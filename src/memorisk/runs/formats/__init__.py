"""Files of YAML, CSV and Parquet, read within bounds."""
