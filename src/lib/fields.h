// JSON, as the requests and answers of the API have it.
#pragma once

#include "codec/json.h"
#include "lib/private.h"

// Members of an object; "" or the default when absent or of another type, or when `object` is NULL.
// Texts are borrowed from the tree and NUL-terminated there.
const char *fields_text(const struct json *object, const char *key);
int64_t fields_number(const struct json *object, const char *key, int64_t otherwise);
bool fields_flag(const struct json *object, const char *key);

// "NAME=VALUE" lists as an object; a NULL list adds nothing. INVALID bad_pair.
fallible fields_pairs(struct json_out *out, const char *key, const char *const *env_map);
void fields_list(struct json_out *out, const char *key, const char *const *texts);
// Of a command. `session` NULL: it says that there is none. INVALID no_command.
fallible fields_command(struct json_out *out, const struct cove_command *command,
			const char *session);
void fields_result(const struct json *event, struct cove_result *out);
// The bytes of a member that may be base64, added to `out`; BAD_PEER bad_event.
fallible fields_bytes(const struct json *event, const char *key, struct buf *out);
// A path, which is bytes: as text, or under NAMEBase64 when it is none.
void fields_path(struct json_out *out, const char *name, const char *path);
// An error about `cwd` in the one form that it has here, whatever started the command.
fallible fields_no_cwd(struct err *err, struct cove *cove, const char *cwd);
