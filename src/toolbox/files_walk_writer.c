// Buffers items of a walk and sends the buffer when it exceeds FLUSH. A walk that fails before the
// first flush is answered with an error; one that fails later leaves the answer incomplete.
#include "toolbox/files_walk_writer.h"

#include "codec/text.h"

#define FLUSH (48 * 1024)
#define BODY_MAX (FLUSH + 256 * 1024) // room for one more item with every byte escaped

void walk_writer_done(struct walk_writer *writer)
{
	http_back(writer->path_arg->x);
	files_drop(writer->walk);
	buf_done(&writer->body);
}

fallible walk_writer_begin(struct walk_writer *writer, const char *name)
{
	const char *root = path_arg_absolute(writer->path_arg, writer->path_arg->path);

	writer->root = strcmp(root, "/") != 0 ? root : "";
	writer->body = BUF_INIT(BODY_MAX);
	writer->out = gateway_success(&writer->body);
	path_arg_put_name(&writer->out, "path", writer->path_arg->shown);
	json_key(&writer->out, name);
	json_begin(&writer->out, '[');
	// A walk for a client that has disconnected is cancelled.
	return http_away(writer->path_arg->x, HTTP_PROBE_HEAD);
}

fallible walk_writer_flow(struct walk_writer *writer)
{
	struct http *x = writer->path_arg->x;

	writer->count++;
	if (writer->body.len < FLUSH && buf_ok(&writer->body))
		return OK;
	if (!buf_ok(&writer->body))
		return err_new(INTERNAL, "internal", "an entry did not fit");
	http_back(x);
	if (!writer->streams)
		TRY(http_begin(x, 200, NULL));
	writer->streams = true;
	TRY(http_write(x, writer->body.at, writer->body.len));
	buf_clear(&writer->body);
	return OK;
}

fallible walk_writer_end(struct walk_writer *writer)
{
	struct files_total total = {0};
	struct json_out *out = &writer->out;

	TRY(files_end(take_ptr(writer->walk), &total));
	http_back(writer->path_arg->x);
	json_end(out, ']');
	json_put_int(out, "count", (int64_t)writer->count);
	if (total.skipped)
		json_put_int(out, "skipped", (int64_t)total.skipped);
	if (total.more)
		json_put_bool(out, "truncated", true);
	if (!writer->streams)
		return gateway_answer(writer->path_arg->x, out);
	gateway_put_now(out);
	json_end(out, '}');
	TRY(http_write(writer->path_arg->x, writer->body.at, writer->body.len));
	return http_end(writer->path_arg->x);
}

static void walk_writer_whole(struct buf *to, const struct walk_writer *writer, struct str path)
{
	buf_text(to, writer->root);
	if (path.len)
		buf_char(to, '/');
	buf_str(to, path);
}

void walk_writer_put_path(struct json_out *out, const struct walk_writer *writer, struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	walk_writer_whole(&text, writer, path);
	json_put_str(out, "absolutePath", buf_view(&text));
}

static void put_coded(struct json_out *out, const char *key, struct str bytes)
{
	auto_buf text = BUF_INIT(8 * PATH_ARG_PATH_MAX);

	text_base64(&text, bytes.at, bytes.len);
	json_put_str(out, key, buf_view(&text));
}

void walk_writer_put_bytes(struct json_out *out, const struct walk_writer *writer, struct str name,
			   struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	walk_writer_whole(&text, writer, path);
	if (name.len && !text_is_utf8(name))
		put_coded(out, "nameBase64", name);
	if (!text_is_utf8(buf_view(&text)))
		put_coded(out, "pathBase64", buf_view(&text));
}
