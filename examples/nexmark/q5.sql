-- NEXMark 5: the auctions with the most bids of every ten seconds, each two seconds.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE STREAM counts AS
  SELECT auction, COUNT(*) AS num, window_end FROM bid [HOP 10 SECONDS EVERY 2 SECONDS] GROUP BY auction;

-- the counts of one window have its end as their timestamp
CREATE STREAM most AS
  SELECT MAX(num) AS num, MAX(window_end) AS window_end FROM counts [TUMBLE 2 SECONDS];

CREATE QUERY q5 AS
  SELECT c.auction, c.num, c.window_end
  FROM counts [RANGE 2 SECONDS] AS c JOIN most [NOW] AS m ON c.num = m.num AND c.window_end = m.window_end
  INTO parquet OPTIONS (path 'out/q5', timestamp 'none');
