// Files of a sandbox. Content is a byte stream: one request with a raw body in or out; a file that
// is written replaces the old one at commit, and without a commit it stays. Operations without
// content are one JSON request each; lists are passed to a callback entry by entry.
#include "lib/file.h"

#include <stdio.h>

#include "base/mem.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define PIECE (256 * 1024)
#define BODY_MAX ((size_t)1 << 20)
#define SESSIONLESS "__DISABLE_SESSION__"

struct cove_file {
	struct cove_request request;
	char *path; // of the request
	uint64_t size;
	bool writes;
};

// ".../api/files/a%20b/c": slashes stay, the rest is percent-encoded. Relative paths start at the
// sandbox's directory. `mode` 0: none.
static char *raw_path(const struct cove_box *box, const char *path, unsigned mode)
{
	auto_buf out = BUF_INIT(1 << 20);
	bool is_relative = *path != '/';
	struct str rest = str_skip(str_of(path), is_relative ? 0 : 1), part;

	buf_fmt(&out, "%s/api/files", box->base);
	while (str_cut(&rest, '/', &part)) {
		buf_char(&out, '/');
		text_percent(&out, part);
	}
	if (is_relative)
		buf_text(&out, "?relativeTo=");
	if (mode)
		buf_fmt(&out, "%cmode=%04o", is_relative ? '&' : '?', mode & 07777);
	return buf_take(&out);
}

static char *tar_path(const struct cove_box *box, const char *path)
{
	auto_buf out = BUF_INIT(1 << 20);

	buf_fmt(&out, "%s/api/tar?path=", box->base);
	text_percent(&out, str_of(path));
	return buf_take(&out);
}

enum cove_kind file_begin(struct cove *cove, const char *method, char *path, const char *type,
			  uint64_t offset, struct cove_file **out, struct cove_error *error)
{
	struct cove_file *file = mem_new_of(struct cove_file);
	struct err *err;

	private_begin(cove);
	file->path = path;
	file->writes = type != NULL;
	file->size = UINT64_MAX;
	file->request = (struct cove_request){
		.cove = cove, .method = method, .path = path, .type = type};
	if (offset)
		snprintf(file->request.range, sizeof(file->request.range), "bytes=%llu-",
			 (unsigned long long)offset);
	err = request_begin(&file->request);
	if (err) {
		cove_file_free(file);
		return private_end(cove, err, error);
	}
	if (!file->writes)
		str_to_u64(http_client_field(file->request.http, "Content-Length"), 0,
			   UINT64_MAX - 1, &file->size);
	*out = file;
	return COVE_OK;
}

enum cove_kind cove_file_open(struct cove_box *box, const char *path, uint64_t offset,
			      struct cove_file **out, struct cove_error *error)
{
	return file_begin(box->cove, "GET", raw_path(box, path, 0), NULL, offset, out, error);
}

enum cove_kind cove_file_create(struct cove_box *box, const char *path, unsigned mode,
				struct cove_file **out, struct cove_error *error)
{
	return file_begin(box->cove, "PUT", raw_path(box, path, mode), "application/octet-stream",
			  0, out, error);
}

enum cove_kind cove_tree_get(struct cove_box *box, const char *path, struct cove_file **out,
			     struct cove_error *error)
{
	return file_begin(box->cove, "GET", tar_path(box, path), NULL, 0, out, error);
}

enum cove_kind cove_tree_put(struct cove_box *box, const char *path, struct cove_file **out,
			     struct cove_error *error)
{
	return file_begin(box->cove, "PUT", tar_path(box, path), "application/x-tar", 0, out,
			  error);
}

uint64_t cove_file_size(const struct cove_file *file)
{
	return file->size;
}

enum cove_kind cove_file_read(struct cove_file *file, void *room, size_t size, size_t *out_len,
			      struct cove_error *error)
{
	return private_call(file->request.cove,
			    request_read(&file->request, room, size, PRIVATE_DEFAULT, out_len),
			    error);
}

enum cove_kind cove_file_write(struct cove_file *file, const void *bytes, size_t len,
			       struct cove_error *error)
{
	const char *at = bytes;
	struct err *err = OK;

	private_begin(file->request.cove);
	while (!err && len > 0) {
		size_t n = len < PIECE ? len : PIECE;

		err = request_write(&file->request, at, n);
		at += n;
		len -= n;
	}
	return private_end(file->request.cove, err, error);
}

static fallible lib_file_commit(struct cove_file *file)
{
	auto_buf reply = BUF_INIT(1 << 20);

	if (!file->writes)
		return err_new(INVALID, "bad_state", "this file is being read");
	TRY(request_finish(&file->request));
	return request_body(&file->request, &reply);
}

enum cove_kind cove_file_commit(struct cove_file *file, struct cove_error *error)
{
	return private_call(file->request.cove, lib_file_commit(file), error);
}

void cove_file_free(struct cove_file *file)
{
	if (!file)
		return;
	request_done(&file->request);
	free(file->path);
	free(file);
}

enum cove_kind cove_read_file(struct cove_box *box, const char *path, char **out, size_t *out_len,
			      struct cove_error *error)
{
	auto_buf bytes = BUF_INIT(PRIVATE_REPLY_MAX);
	struct cove_file *file = NULL;
	enum cove_kind kind = cove_file_open(box, path, 0, &file, error);

	if (!file)
		return kind;
	kind = private_end(box->cove, request_body(&file->request, &bytes), error);
	cove_file_free(file);
	if (kind)
		return kind;
	if (out_len)
		*out_len = bytes.len;
	*out = bytes.at ? buf_take(&bytes) : mem_str("");
	return COVE_OK;
}

enum cove_kind cove_write_file(struct cove_box *box, const char *path, const void *bytes,
			       size_t len, struct cove_error *error)
{
	struct cove_file *file = NULL;
	enum cove_kind kind = cove_file_create(box, path, 0, &file, error);

	if (file) {
		kind = cove_file_write(file, bytes, len, error);
		if (!kind)
			kind = cove_file_commit(file, error);
		cove_file_free(file);
	}
	return kind;
}

// {"path": …, the caller's fields, "sessionId"}: relative paths do not depend on a session.
static struct json_out lib_tree_begin(struct buf *body, const char *key, const char *path)
{
	struct json_out out = json_to(body);

	json_begin(&out, '{');
	fields_path(&out, key, path);
	json_put_text(&out, "sessionId", SESSIONLESS);
	return out;
}

static fallible tree_send(struct cove_box *box, const char *rest, struct buf *body,
			  struct json_out *json, struct json **out)
{
	json_end(json, '}');
	return lib_box_post(box, rest, body, out);
}

static struct cove_entry lib_tree_entry_of(const struct json *at)
{
	const char *path = fields_text(at, "absolutePath");

	return (struct cove_entry){
		.name = fields_text(at, "name"),
		.path = *path ? path : fields_text(at, "path"),
		.relative = fields_text(at, "relativePath"),
		.type = fields_text(at, "type"),
		.mode = fields_text(at, "mode"),
		.modified_at = fields_text(at, "modifiedAt"),
		.target = fields_text(at, "target"),
		.size = (uint64_t)fields_number(at, "size", 0),
	};
}

// The last `parts` names of a path.
static const char *lib_tree_tail_of(const char *path, size_t parts)
{
	const char *at = path + strlen(path);

	while (at > path && (at[-1] != '/' || --parts > 0))
		at--;
	return at;
}

static size_t parts_of(const char *path)
{
	size_t parts = 1;

	for (; *path; path++)
		parts += *path == '/';
	return parts;
}

// Names that are not UTF-8 are also sent as base64.
static fallible lib_tree_report(const struct json *at, cove_entry_fn *each, void *arg)
{
	struct cove_entry entry = lib_tree_entry_of(at);
	auto_buf path = BUF_INIT(1 << 20);
	const char *coded = fields_text(at, "pathBase64");

	if (*coded && text_unbase64(&path, str_of(coded)) && path.len && path.at[0] == '/') {
		entry.path = path.at;
		entry.name = lib_tree_tail_of(path.at, 1);
		entry.relative = lib_tree_tail_of(path.at, parts_of(entry.relative));
	}
	if (each(arg, &entry))
		return err_new(CANCELLED, "cancelled", "the callback ended the listing");
	return OK;
}

static fallible lib_tree_list(struct cove_box *box, const char *path, bool recursive, bool hidden,
			      cove_entry_fn *each, void *arg)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = lib_tree_begin(&body, "path", path);
	struct json *files;

	json_key(&json, "options");
	json_begin(&json, '{');
	json_put_bool(&json, "recursive", recursive);
	json_put_bool(&json, "includeHidden", hidden);
	json_end(&json, '}');
	TRY(tree_send(box, "/api/list-files", &body, &json, &answer));
	files = json_get(answer, "files");
	for (size_t i = 0; files && i < json_count(files); i++)
		TRY(lib_tree_report(json_at(files, i), each, arg));
	return OK;
}

enum cove_kind cove_list(struct cove_box *box, const char *path, bool recursive, bool hidden,
			 cove_entry_fn *each, void *arg, struct cove_error *error)
{
	return private_call(box->cove, lib_tree_list(box, path, recursive, hidden, each, arg),
			    error);
}

static fallible lib_tree_look(struct cove_box *box, const char *path, cove_entry_fn *each,
			      void *arg)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = lib_tree_begin(&body, "path", path);
	struct cove_entry entry;

	TRY(tree_send(box, "/api/stat", &body, &json, &answer));
	entry = lib_tree_entry_of(answer);
	if (!*entry.path)
		entry.path = path;
	if (!*entry.name)
		entry.name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	if (each(arg, &entry))
		return err_new(CANCELLED, "cancelled", "the caller wants no more");
	return OK;
}

enum cove_kind cove_stat(struct cove_box *box, const char *path, cove_entry_fn *each, void *arg,
			 struct cove_error *error)
{
	return private_call(box->cove, lib_tree_look(box, path, each, arg), error);
}

static fallible lib_tree_exists(struct cove_box *box, const char *path, bool *out)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_json answer = NULL;
	struct json_out json = lib_tree_begin(&body, "path", path);

	TRY(tree_send(box, "/api/exists", &body, &json, &answer));
	*out = fields_flag(answer, "exists");
	return OK;
}

enum cove_kind cove_exists(struct cove_box *box, const char *path, bool *out,
			   struct cove_error *error)
{
	return private_call(box->cove, lib_tree_exists(box, path, out), error);
}

enum cove_kind cove_mkdir(struct cove_box *box, const char *path, bool parents,
			  struct cove_error *error)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = lib_tree_begin(&body, "path", path);

	private_begin(box->cove);
	json_put_bool(&json, "recursive", parents);
	return private_end(box->cove, tree_send(box, "/api/mkdir", &body, &json, NULL), error);
}

enum cove_kind cove_remove(struct cove_box *box, const char *path, bool recursive,
			   struct cove_error *error)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = lib_tree_begin(&body, "path", path);

	private_begin(box->cove);
	if (recursive)
		json_put_bool(&json, "recursive", true);
	return private_end(box->cove, tree_send(box, "/api/delete", &body, &json, NULL), error);
}

enum cove_kind cove_rename(struct cove_box *box, const char *from, const char *to,
			   struct cove_error *error)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out json = lib_tree_begin(&body, "oldPath", from);

	private_begin(box->cove);
	fields_path(&json, "newPath", to);
	return private_end(box->cove, tree_send(box, "/api/rename", &body, &json, NULL), error);
}

enum cove_kind cove_chmod(struct cove_box *box, const char *path, unsigned mode,
			  struct cove_error *error)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_free char *octal = mem_fmt("%04o", mode);
	struct json_out json = lib_tree_begin(&body, "path", path);

	private_begin(box->cove);
	json_put_text(&json, "mode", octal);
	return private_end(box->cove, tree_send(box, "/api/chmod", &body, &json, NULL), error);
}
