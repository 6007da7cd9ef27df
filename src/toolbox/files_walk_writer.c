#include "toolbox/files_walk_writer.h"

#include "codec/text.h"

#define FLUSH (48 * 1024)
#define BODY_MAX (FLUSH + 256 * 1024) // one item, each of its bytes escaped, fits behind

void walk_writer_done(struct walk_writer *trail)
{
	http_back(trail->place->x);
	files_drop(trail->walk);
	buf_done(&trail->body);
}

fallible walk_writer_begin(struct walk_writer *trail, const char *name)
{
	const char *root = path_arg_absolute(trail->place, trail->place->path);

	trail->root = strcmp(root, "/") != 0 ? root : "";
	trail->body = BUF_INIT(BODY_MAX);
	trail->out = gateway_success(&trail->body);
	path_arg_put_name(&trail->out, "path", trail->place->shown);
	json_key(&trail->out, name);
	json_begin(&trail->out, '[');
	// Nobody looks through a tree for a client that is gone.
	return http_away(trail->place->x, HTTP_PROBE_HEAD);
}

fallible walk_writer_flow(struct walk_writer *trail)
{
	struct http *x = trail->place->x;

	trail->count++;
	if (trail->body.len < FLUSH && buf_ok(&trail->body))
		return OK;
	if (!buf_ok(&trail->body))
		return err_new(INTERNAL, "internal", "an entry did not fit");
	http_back(x);
	if (!trail->streams)
		TRY(http_begin(x, 200, NULL));
	trail->streams = true;
	TRY(http_write(x, trail->body.at, trail->body.len));
	buf_clear(&trail->body);
	return OK;
}

fallible walk_writer_end(struct walk_writer *trail)
{
	struct files_total total = {0};
	struct json_out *out = &trail->out;

	TRY(files_end(take_ptr(trail->walk), &total));
	http_back(trail->place->x);
	json_end(out, ']');
	json_put_int(out, "count", (int64_t)trail->count);
	if (total.skipped)
		json_put_int(out, "skipped", (int64_t)total.skipped);
	if (total.more)
		json_put_bool(out, "truncated", true);
	if (!trail->streams)
		return gateway_answer(trail->place->x, out);
	gateway_put_now(out);
	json_end(out, '}');
	TRY(http_write(trail->place->x, trail->body.at, trail->body.len));
	return http_end(trail->place->x);
}

static void walk_writer_whole(struct buf *to, const struct walk_writer *trail, struct str path)
{
	buf_text(to, trail->root);
	if (path.len)
		buf_char(to, '/');
	buf_str(to, path);
}

void walk_writer_put_path(struct json_out *out, const struct walk_writer *trail, struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	walk_writer_whole(&text, trail, path);
	json_put_str(out, "absolutePath", buf_view(&text));
}

static void put_coded(struct json_out *out, const char *key, struct str bytes)
{
	auto_buf text = BUF_INIT(8 * PATH_ARG_PATH_MAX);

	text_base64(&text, bytes.at, bytes.len);
	json_put_str(out, key, buf_view(&text));
}

void walk_writer_put_bytes(struct json_out *out, const struct walk_writer *trail, struct str name,
			   struct str path)
{
	auto_buf text = BUF_INIT(4 * PATH_ARG_PATH_MAX);

	walk_writer_whole(&text, trail, path);
	if (name.len && !text_is_utf8(name))
		put_coded(out, "nameBase64", name);
	if (!text_is_utf8(buf_view(&text)))
		put_coded(out, "pathBase64", buf_view(&text));
}
