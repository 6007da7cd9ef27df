// Metadata of a file in JSON: type, size, mode, times.
#pragma once

#include "toolbox/path_arg.h"

// type, size, modifiedAt, mode, permissions (the owner's).
void entry_put_stat(struct json_out *out, const struct fileop_stat *stat);
// octal, uid, gid, links, inode, changedAt.
void entry_put_owner(struct json_out *out, const struct fileop_stat *stat);
void entry_put_mode(struct json_out *out, uint32_t mode); // mode and octal
// Parses "0755", "755" or "rwxr-xr-x"; false: not a mode.
bool entry_mode(struct str text, uint32_t *out);
