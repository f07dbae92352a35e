SELECT CAST(m.`count` AS SIGNED) FROM information_schema.INNODB_METRICS m WHERE m.name = 'trx_rseg_history_len'
