/** `node:zlib`: can be imported and extended; using it says what to do instead. */

import { refuse } from "pi:node/refuse";

const refused = refuse("node:zlib", "compression is not there yet; bundle a pure JavaScript implementation with the extension", [
  "gzip", "gzipSync", "gunzip", "gunzipSync", "deflate", "deflateSync", "inflate", "inflateSync", "deflateRaw", "deflateRawSync",
  "inflateRaw", "inflateRawSync", "unzip", "unzipSync", "brotliCompress", "brotliCompressSync", "brotliDecompress",
  "brotliDecompressSync", "crc32", "createGzip", "createGunzip", "createDeflate", "createInflate", "createDeflateRaw",
  "createInflateRaw", "createUnzip", "createBrotliCompress", "createBrotliDecompress", "Gzip", "Gunzip", "Deflate", "Inflate",
  "DeflateRaw", "InflateRaw", "Unzip", "BrotliCompress", "BrotliDecompress",
]);

export const {
  gzip, gzipSync, gunzip, gunzipSync, deflate, deflateSync, inflate, inflateSync, deflateRaw, deflateRawSync, inflateRaw, inflateRawSync,
  unzip, unzipSync, brotliCompress, brotliCompressSync, brotliDecompress, brotliDecompressSync, crc32, createGzip, createGunzip,
  createDeflate, createInflate, createDeflateRaw, createInflateRaw, createUnzip, createBrotliCompress, createBrotliDecompress, Gzip,
  Gunzip, Deflate, Inflate, DeflateRaw, InflateRaw, Unzip, BrotliCompress, BrotliDecompress,
} = refused;

export const constants: Record<string, number> = {
  Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1, Z_DEFAULT_COMPRESSION: -1,
  Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1, BROTLI_OPERATION_FINISH: 2,
};

export default { ...refused, constants };
