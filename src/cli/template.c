// The verb template: list, import an archive or a directory, freeze the host, remove. An import is
// streamed; a directory is packed on the fly by cli/tar.
#include "cli/template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/boxes.h"
#include "cli/print.h"
#include "cli/remote.h"
#include "cli/stdio.h"
#include "cli/tar.h"
#include "cli/verbs.h"
#include "codec/text.h"

#define PIECE (256 * 1024)

static void cli_template_add_size(struct grid *grid, const struct json *template)
{
	auto_buf text = BUF_INIT(32);
	uint64_t bytes = 0;
	auto_err err = json_u64(json_get(template, "bytes"), "bytes", 0, UINT64_MAX, &bytes);

	if (!err && bytes)
		print_size(bytes, &text);
	grid_add(grid, text.len ? text.at : "-");
}

static fallible cli_template_add_row(const struct json *template, void *arg)
{
	struct grid *grid = arg;
	const char *created = boxes_text(template, "createdAt");

	grid_add(grid, boxes_text(template, "name"));
	grid_add(grid, boxes_text(template, "kind"));
	cli_template_add_size(grid, template);
	grid_add(grid, *created ? created : "-");
	return OK;
}

static fallible print_name(const struct json *template, void *arg)
{
	(void)arg;
	print_line("%s", boxes_text(template, "name"));
	return OK;
}

fallible cli_template_ls(struct call *call)
{
	static const char *const heads[] = {"NAME", "KIND", "SIZE", "CREATED"};
	auto_remote remote = {0};
	auto_grid grid = {.columns = 4};

	TRY(remote_open(&remote, call));
	if (call_has(call, OPT_JSON))
		return boxes_dump(&remote, TEMPLATES_PATH, "");
	if (call_has(call, OPT_QUIET))
		return boxes_each(&remote, TEMPLATES_PATH, "", print_name, NULL, NULL);
	for (size_t i = 0; i < 4; i++)
		grid_add(&grid, heads[i]);
	TRY(boxes_each(&remote, TEMPLATES_PATH, "", cli_template_add_row, &grid, NULL));
	grid_print(&grid, stdout);
	return OK;
}

// Prints the name, or the whole reply.
static fallible cli_template_show(struct call *call, struct buf *text)
{
	if (call_has(call, OPT_JSON))
		print_json(buf_view(text));
	else if (!call_has(call, OPT_QUIET))
		print_line("%s", call->words[0]);
	return OK;
}

// Streams a descriptor into the request.
static fallible cli_template_upload(struct remote *remote, struct cove_request *request, int fd,
				    uint64_t size, bool quiet)
{
	auto_free char *room = mem_new(PIECE);
	struct progress progress;
	struct err *err = OK;
	uint64_t sent = 0;

	progress_start(&progress, "sent", quiet);
	while (!err) {
		size_t n = 0;

		err = stdio_read(fd, room, PIECE, &n);
		if (err || n == 0)
			break;
		err = remote_did(remote, cove_request_write(request, room, n, &remote->error));
		sent += n;
		progress_show(&progress, sent, size);
	}
	progress_end(&progress);
	return err;
}

static fallible cli_template_read_reply(struct remote *remote, struct cove_request *request,
					struct buf *out)
{
	size_t n = 1;

	while (n > 0) {
		char *room = buf_space(out, PIECE);

		if (!room)
			return err_new(TOO_LARGE, "reply_too_large", "the reply is too large");
		TRY(remote_did(remote,
			       cove_request_read(request, room, PIECE, &n, &remote->error)));
		buf_grew(out, n);
	}
	return OK;
}

static void request_drop(struct cove_request **request)
{
	cove_request_free(*request);
}

static fallible send_archive(struct call *call, struct remote *remote, int fd, uint64_t size)
{
	auto_buf path = BUF_INIT(1 << 20), text = BUF_INIT(REMOTE_REPLY_MAX);
	on_exit_call(request_drop) struct cove_request *request = NULL;

	buf_text(&path, TEMPLATES_PATH "?name=");
	text_percent(&path, str_of(call->words[0]));
	TRY(remote_did(remote, cove_request_open(remote->cove, "POST", path.at, "application/x-tar",
						 &request, &remote->error)));
	TRY(cli_template_upload(remote, request, fd, size, call_has(call, OPT_QUIET)),
	    "send the archive");
	TRY(remote_did(remote, cove_request_finish(request, &remote->error)));
	TRY(cli_template_read_reply(remote, request, &text));
	return cli_template_show(call, &text);
}

static fallible cli_template_send_dir(struct call *call, struct remote *remote, const char *dir)
{
	struct tar *tar = NULL;
	auto_fd fd = -1;
	struct err *err, *packed;

	TRY(tar_start(dir, &tar, &fd));
	err = send_archive(call, remote, fd, 0);
	close(take_fd(&fd)); // ends a tar thread that is not read any more
	packed = tar_end(tar);
	// The daemon may have refused a truncated tree: the cause is on our side.
	if (packed && err_kind(packed) != ERR_CANCELLED) {
		err_free(err);
		return packed;
	}
	err_free(packed);
	return err;
}

fallible cli_template_import(struct call *call)
{
	const char *from = call->words[1];
	bool is_stdin = strcmp(from, "-") == 0;
	auto_remote remote = {0};
	auto_fd fd = -1;
	struct stat st = {0};

	if (is_stdin && isatty(STDIN_FILENO))
		return err_hint(err_new(INVALID, "no_archive", "standard input is a terminal"),
				"docker export BOX | cove template import NAME -");
	if (!is_stdin)
		fd = open(from, O_RDONLY | O_CLOEXEC);
	if (!is_stdin && (fd < 0 || fstat(fd, &st)))
		return err_hint(err_new(INVALID, "no_archive", "cannot read '%s': %s", from,
					strerror(errno)),
				"give a tar file, an OCI layout, a directory, or - for stdin");
	TRY(remote_open(&remote, call));
	if (S_ISDIR(st.st_mode))
		return cli_template_send_dir(call, &remote, from);
	return send_archive(call, &remote, is_stdin ? STDIN_FILENO : fd,
			    S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0);
}

fallible cli_template_freeze(struct call *call)
{
	auto_remote remote = {0};
	auto_buf body = BUF_INIT(1 << 20), text = BUF_INIT(REMOTE_REPLY_MAX);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "name", call->words[0]);
	json_put_text(&out, "from", "host");
	json_end(&out, '}');
	TRY(remote_open(&remote, call));
	TRY(remote_ask(&remote, "POST", TEMPLATES_PATH, &body, &text, NULL));
	return cli_template_show(call, &text);
}

fallible cli_template_rm(struct call *call)
{
	auto_remote remote = {0};

	TRY(remote_open(&remote, call));
	for (int i = 0; i < call->word_count; i++) {
		auto_free char *path = remote_path(TEMPLATES_PATH "/", call->words[i], "");
		struct err *err = remote_ask(&remote, "DELETE", path, NULL, NULL, NULL);

		if (err && err_kind(err) == ERR_NOT_FOUND && call_has(call, OPT_FORCE)) {
			err_free(err);
			continue;
		}
		TRY(err, "remove template %s", call->words[i]);
		if (!call_has(call, OPT_QUIET))
			print_line("%s", call->words[i]);
	}
	return OK;
}
