-- NEXMark 20: bids with their auctions of category 10; a bid may come before its auction.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP,
    extra STRING)
  FROM parquet OPTIONS (path 'nexmark/bid', timestamp 'dateTime');
CREATE STREAM auction (id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
    dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING)
  FROM parquet OPTIONS (path 'nexmark/auction', timestamp 'dateTime');

CREATE QUERY q20 AS
  SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bid_dateTime, a.itemName, a.seller, a.category
  FROM bid [UNBOUNDED] AS b JOIN auction [UNBOUNDED] AS a ON b.auction = a.id
  WHERE a.category = 10
  INTO parquet OPTIONS (path 'out/q20', timestamp 'none');
