-- Merges the system calls of all hosts below `fleet`, with DuckDB: exact counts and sums, and
-- quantiles within 1 %, from the sum of the hosts' histograms.
WITH measured AS (
  SELECT * FROM read_parquet('fleet/histograms/syscalls.latency/**/*.parquet',
                             hive_partitioning = true, union_by_name = true)
), totals AS (
  SELECT syscall, count(DISTINCT host) AS hosts, sum(count) AS calls, sum(sum) / 1e3 AS total_us
  FROM measured GROUP BY syscall
), buckets AS (
  SELECT syscall, b.low AS low, b.high AS high, sum(b.count) AS n
  FROM (SELECT syscall, unnest(buckets) AS b FROM measured) GROUP BY ALL
), ranked AS (
  SELECT syscall, high, sum(n) OVER (PARTITION BY syscall ORDER BY low) AS below FROM buckets
)
SELECT syscall, hosts, calls, total_us,
       min(high) FILTER (below >= 0.50 * calls) / 1e3 AS p50_us,
       min(high) FILTER (below >= 0.95 * calls) / 1e3 AS p95_us,
       min(high) FILTER (below >= 0.99 * calls) / 1e3 AS p99_us
FROM ranked JOIN totals USING (syscall)
GROUP BY ALL ORDER BY total_us DESC;
