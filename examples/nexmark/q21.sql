-- NEXMark 21: bids with the number of their channel.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');

CREATE QUERY q21 AS
  SELECT auction, bidder, price, channel, channel_id
  FROM (
    SELECT auction, bidder, price, channel,
      CASE lower(channel)
        WHEN 'apple' THEN '0'
        WHEN 'google' THEN '1'
        WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3'
        ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
      END AS channel_id
    FROM bid
  ) AS numbered
  WHERE channel_id <> ''
  INTO parquet OPTIONS (path 'out/q21', timestamp 'none');
