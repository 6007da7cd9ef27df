// A file of a sandbox as a byte stream: one request with a raw body in or out. A file that is
// written replaces the old one at commit; without a commit it stays.
#include <stdio.h>

#include "base/mem.h"
#include "codec/text.h"
#include "lib/box.h"
#include "lib/http_call.h"
#include "lib/request.h"

#define PIECE (256 * 1024)

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

// Takes ownership of the path.
static enum cove_kind lib_file_begin(struct cove_box *box, const char *method, char *path,
				     const char *type, uint64_t offset, struct cove_file **out,
				     struct cove_error *error)
{
	struct cove_file *file = mem_new_of(struct cove_file);
	struct err *err;

	private_begin(box->cove);
	file->path = path;
	file->writes = type != NULL;
	file->size = UINT64_MAX;
	file->request = (struct cove_request){
		.cove = box->cove, .method = method, .path = path, .type = type};
	if (offset)
		snprintf(file->request.range, sizeof(file->request.range), "bytes=%llu-",
			 (unsigned long long)offset);
	err = request_begin(&file->request);
	if (err) {
		cove_file_free(file);
		return private_end(box->cove, err, error);
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
	return lib_file_begin(box, "GET", raw_path(box, path, 0), NULL, offset, out, error);
}

enum cove_kind cove_file_create(struct cove_box *box, const char *path, unsigned mode,
				struct cove_file **out, struct cove_error *error)
{
	return lib_file_begin(box, "PUT", raw_path(box, path, mode), "application/octet-stream", 0,
			      out, error);
}

enum cove_kind cove_tree_get(struct cove_box *box, const char *path, struct cove_file **out,
			     struct cove_error *error)
{
	return lib_file_begin(box, "GET", tar_path(box, path), NULL, 0, out, error);
}

enum cove_kind cove_tree_put(struct cove_box *box, const char *path, struct cove_file **out,
			     struct cove_error *error)
{
	return lib_file_begin(box, "PUT", tar_path(box, path), "application/x-tar", 0, out, error);
}

uint64_t cove_file_size(const struct cove_file *file)
{
	return file->size;
}

enum cove_kind cove_file_read(struct cove_file *file, void *room, size_t size, size_t *out_len,
			      struct cove_error *error)
{
	private_begin(file->request.cove);
	return private_end(file->request.cove,
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
	private_begin(file->request.cove);
	return private_end(file->request.cove, lib_file_commit(file), error);
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
