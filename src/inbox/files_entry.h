// What is told of a file: type, size, rights, times.
#pragma once

#include "inbox/place.h"

// type, size, modifiedAt, mode, permissions (the owner's).
void entry_put_stat(struct json_out *out, const struct reach_stat *stat);
// octal, uid, gid, links, inode, changedAt.
void entry_put_owner(struct json_out *out, const struct reach_stat *stat);
void entry_put_mode(struct json_out *out, uint32_t mode); // mode and octal
// "0755", "755", "rwxr-xr-x"; false: neither.
bool entry_mode(struct str text, uint32_t *out);
