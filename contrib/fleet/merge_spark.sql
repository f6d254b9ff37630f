-- merge.sql for Spark. `measured` is the table of histograms, in Python:
--   spark.read.parquet("fleet/histograms/syscalls.latency").createOrReplaceTempView("measured")
WITH totals AS (
  SELECT syscall, count(DISTINCT host) AS hosts, sum(`count`) AS calls, sum(`sum`) / 1e3 AS total_us
  FROM measured GROUP BY syscall
), buckets AS (
  SELECT syscall, b.low AS low, b.high AS high, sum(b.`count`) AS n
  FROM (SELECT syscall, explode(buckets) AS b FROM measured) GROUP BY ALL
), ranked AS (
  SELECT syscall, high, sum(n) OVER (PARTITION BY syscall ORDER BY low) AS below FROM buckets
)
SELECT syscall, hosts, calls, total_us,
       min(high) FILTER (WHERE below >= 0.50 * calls) / 1e3 AS p50_us,
       min(high) FILTER (WHERE below >= 0.95 * calls) / 1e3 AS p95_us,
       min(high) FILTER (WHERE below >= 0.99 * calls) / 1e3 AS p99_us
FROM ranked JOIN totals USING (syscall)
GROUP BY ALL ORDER BY total_us DESC
