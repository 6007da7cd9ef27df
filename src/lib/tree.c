// File operations without content: stat, list, find, move, delete, make directories. Each is one
// JSON request; lists are passed to a callback entry by entry.
#include "base/mem.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/fields.h"

#define BODY_MAX ((size_t)1 << 20)
#define SESSIONLESS "__DISABLE_SESSION__"

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
static fallible lib_tree_tell(const struct json *at, cove_entry_fn *each, void *arg)
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
		TRY(lib_tree_tell(json_at(files, i), each, arg));
	return OK;
}

enum cove_kind cove_list(struct cove_box *box, const char *path, bool recursive, bool hidden,
			 cove_entry_fn *each, void *arg, struct cove_error *error)
{
	private_begin(box->cove);
	return private_end(box->cove, lib_tree_list(box, path, recursive, hidden, each, arg),
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
	private_begin(box->cove);
	return private_end(box->cove, lib_tree_look(box, path, each, arg), error);
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
	private_begin(box->cove);
	return private_end(box->cove, lib_tree_exists(box, path, out), error);
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
