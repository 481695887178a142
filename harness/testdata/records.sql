CREATE TABLE IF NOT EXISTS minfer_record (
  date TEXT,
  command TEXT,
  build_commit TEXT,
  host TEXT,
  device TEXT,
  sweep TEXT,
  op TEXT,
  params TEXT,
  model TEXT,
  weights TEXT,
  model_sha256 TEXT,
  lever TEXT,
  side TEXT,
  side_name TEXT,
  levers TEXT,
  pipelines TEXT,
  median_s REAL,
  samples_s TEXT,
  rate REAL,
  rate_unit TEXT,
  share REAL,
  share_of TEXT,
  ratio REAL,
  ratio_lo REAL,
  ratio_hi REAL,
  differs INTEGER,
  instructions INTEGER,
  bytes_read INTEGER,
  bytes_written INTEGER,
  barriers INTEGER,
  divergent INTEGER,
  dispatches INTEGER,
  greedy_sha256 TEXT,
  warnings TEXT
);
INSERT INTO minfer_record (date, command, build_commit, host, device, sweep, op, params, model, weights, model_sha256, lever, side, side_name, levers, pipelines, median_s, samples_s, rate, rate_unit, share, share_of, ratio, ratio_lo, ratio_hi, differs, instructions, bytes_read, bytes_written, barriers, divergent, dispatches, greedy_sha256, warnings) VALUES ('2026-11-30T03:00:00Z', 'mbench --sweep attention --filter ''a|b''', '0123abc', 'a host, 2 cores', 'Software Metal device (2 threads)', 'attention', 'decode', 'n_kv=512 note=it''s', 'tiny-qwen2', 'q4_0', 'abababababababababababababababababababababababababababababababab', 'MINFER_NO_FLASH', 'A', 'MINFER_NO_FLASH=0', '', 'attention f16 flash_decode_64', 0.011, '0.01 0.011 0.012', 363.6363636363637, 'tokens/s', 0.19065018181818183, 'multiply_add', 1.25, 1.2, 1.3, 1, 12345, 1048576, 512, 3, 9, 7, 'aa', 'noise: much');
INSERT INTO minfer_record (date, command, build_commit, host, device, sweep, op, params, model, weights, model_sha256, lever, side, side_name, levers, pipelines, median_s, samples_s, rate, rate_unit, share, share_of, ratio, ratio_lo, ratio_hi, differs, instructions, bytes_read, bytes_written, barriers, divergent, dispatches, greedy_sha256, warnings) VALUES ('2026-11-30T03:00:00Z', 'mbench --sweep attention --filter ''a|b''', '0123abc', 'a host, 2 cores', 'Software Metal device (2 threads)', 'attention', 'decode', 'n_kv=512 note=it''s', 'tiny-qwen2', 'q4_0', 'abababababababababababababababababababababababababababababababab', 'MINFER_NO_FLASH', 'B', 'MINFER_NO_FLASH=1', 'MINFER_NO_FLASH=1', 'attention f16 combine, attention f16 split_64', 0.013749999999999998, '0.0125 0.013749999999999998 0.015', 290.90909090909093, 'tokens/s', 0.15252014545454548, 'multiply_add', 1.25, 1.2, 1.3, 1, 23456, 2097152, 1024, 5, 0, 9, 'aa', 'noise: much');
INSERT INTO minfer_record (date, command, build_commit, host, device, sweep, op, params, model, weights, model_sha256, lever, side, side_name, levers, pipelines, median_s, samples_s, rate, rate_unit, share, share_of, ratio, ratio_lo, ratio_hi, differs, instructions, bytes_read, bytes_written, barriers, divergent, dispatches, greedy_sha256, warnings) VALUES ('2026-11-30T03:00:00Z', 'mbench --sweep attention --filter ''a|b''', '0123abc', 'a host, 2 cores', 'Software Metal device (2 threads)', 'attention', 'decode', 'n_kv=2048 note=it''s', 'tiny-qwen2', 'q4_0', 'abababababababababababababababababababababababababababababababab', 'MINFER_NO_FLASH', 'A', 'MINFER_NO_FLASH=0', '', 'attention f16 flash_decode_64', 0.011, '0.01 0.011 0.012', 363.6363636363637, 'tokens/s', 0.19065018181818183, 'multiply_add', 1.001, 0.98, 1.02, 0, 12345, 1048576, 512, 3, 9, 7, 'aa', '');
INSERT INTO minfer_record (date, command, build_commit, host, device, sweep, op, params, model, weights, model_sha256, lever, side, side_name, levers, pipelines, median_s, samples_s, rate, rate_unit, share, share_of, ratio, ratio_lo, ratio_hi, differs, instructions, bytes_read, bytes_written, barriers, divergent, dispatches, greedy_sha256, warnings) VALUES ('2026-11-30T03:00:00Z', 'mbench --sweep attention --filter ''a|b''', '0123abc', 'a host, 2 cores', 'Software Metal device (2 threads)', 'attention', 'decode', 'n_kv=2048 note=it''s', 'tiny-qwen2', 'q4_0', 'abababababababababababababababababababababababababababababababab', 'MINFER_NO_FLASH', 'B', 'MINFER_NO_FLASH=1', 'MINFER_NO_FLASH=1', 'attention f16 combine, attention f16 split_64', 0.011010999999999998, '0.01001 0.011010999999999998 0.012011999999999998', 363.27309054581787, 'tokens/s', 0.19045972209608575, 'multiply_add', 1.001, 0.98, 1.02, 0, 23456, 2097152, 1024, 5, 0, 9, 'aa', '');
INSERT INTO minfer_record (date, command, build_commit, host, device, sweep, op, params, model, weights, model_sha256, lever, side, side_name, levers, pipelines, median_s, samples_s, rate, rate_unit, share, share_of, ratio, ratio_lo, ratio_hi, differs, instructions, bytes_read, bytes_written, barriers, divergent, dispatches, greedy_sha256, warnings) VALUES ('2026-11-30T03:00:00Z', 'mbench --sweep attention --filter ''a|b''', '0123abc', 'a host, 2 cores', 'Software Metal device (2 threads)', 'attention', 'rms_norm', 'd=896', '', '', '', '', 'A', 'a|b', '', '', 2.5e-06, '2e-06 3e-06', 1.4336e+09, 'B/s', 0, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', '');
