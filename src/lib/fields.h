// JSON fields of the API's requests and answers.
#pragma once

#include "codec/json.h"
#include "lib/private.h"

// Members of an object; "" or the default when absent or of another type, or when `object` is NULL.
// Strings are borrowed from the tree and NUL-terminated.
const char *fields_text(const struct json *object, const char *key);
int64_t fields_number(const struct json *object, const char *key, int64_t otherwise);
bool fields_flag(const struct json *object, const char *key);

// Writes a "NAME=VALUE" list as an object; a NULL list adds nothing. INVALID bad_pair.
fallible fields_pairs(struct json_out *out, const char *key, const char *const *env_map);
void fields_list(struct json_out *out, const char *key, const char *const *texts);
// Writes a command, which may be none. And one with its session; `session` NULL: says that there is
// none. INVALID two_commands, no_command.
fallible fields_ask(struct json_out *out, const struct cove_command *command);
fallible fields_command(struct json_out *out, const struct cove_command *command,
			const char *session);
// Options that are not NULL, and numbers that are not 0.
void fields_put_text(struct json_out *out, const char *key, const char *text);
void fields_put_number(struct json_out *out, const char *key, double number);
// Files of a request, `count` of them, and its network policy; 0 and NULL: nothing.
void fields_files(struct json_out *out, const struct cove_execution_file *files, size_t count);
void fields_network(struct json_out *out, const char *mode, const char *const *allow);
// Volumes of a sandbox, "NAME:PATH" or "NAME:PATH:ro"; NULL: nothing. INVALID bad_value.
fallible fields_volumes(struct json_out *out, const char *const *volumes);
void fields_result(const struct json *event, struct cove_result *out);
// Appends a member that may be base64, decoded, to `out`; BAD_PEER bad_event.
fallible fields_bytes(const struct json *event, const char *key, struct buf *out);
// Writes a path, which is bytes: as text, or as NAMEBase64 if it is not UTF-8.
void fields_path(struct json_out *out, const char *name, const char *path);
// Maps errors about `cwd` to one form, whatever started the command.
fallible fields_no_cwd(struct err *err, struct cove *cove, const char *cwd);
// "key": [names…]; NULL: nothing. The list ends with NULL.
void fields_names(struct json_out *out, const char *key, const char *const *names);
