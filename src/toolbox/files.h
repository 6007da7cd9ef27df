// Files in the sandbox, one operation a request: JSON, event streams, raw bodies, archives.
#pragma once

#include "toolbox/path_arg.h"

#define FILES_CONTENT_MAX 33554432 // largest file that is sent inside JSON
#define FILES_BODY_MAX 50331648	   // largest JSON body that carries a file

// Metadata of a file in JSON. type, size, modifiedAt, mode, permissions (the owner's).
void entry_put_stat(struct json_out *out, const struct fileop_stat *stat);
void entry_put_mode(struct json_out *out, uint32_t mode); // mode and octal
// Parses "0755", "755" or "rwxr-xr-x"; false: not a mode.
bool entry_mode(struct str text, uint32_t *out);
// The ETag of a file, in the exchange's arena. It consists of mtime, size and inode: a file that is
// replaced by rename gets another one, a file that is written twice within a microsecond to the
// same size does not.
const char *entry_etag(struct http *x, const struct fileop_stat *stat);

// TOO_LARGE file_too_large: the file does not fit into JSON. Its sizes are set in path_arg for the
// error.
fallible files_too_large(struct path_arg *path_arg, uint64_t size);

// The pipe of an archive, whose other end is in the box. TIMEOUT box_silent after `silence_ms`
// without progress. files_tar_take(): the next bytes, *out = 0 at the end. files_tar_give() writes
// all bytes, or sets *out_closed when the reader has closed the pipe.
fallible files_tar_take(const struct files *files, int fd, void *room, size_t size,
			int64_t silence_ms, size_t *out);
fallible files_tar_give(const struct files *files, int fd, struct str bytes, int64_t silence_ms,
			bool *out_closed);
