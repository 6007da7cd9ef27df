// The verb template: list, import an archive or a directory, export, freeze the host, remove. An
// import is streamed; a directory is packed on the fly by cli/tar.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/collection.h"
#include "cli/print.h"
#include "cli/stdio.h"
#include "cli/tar.h"
#include "codec/text.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define PIECE (256 * 1024)

static void put_template_size(const struct json *template, const char *key, struct buf *out)
{
	int64_t bytes = fields_number(template, key, 0);

	if (bytes > 0)
		print_size((uint64_t)bytes, out);
}

fallible cli_template_ls(struct call *call)
{
	static const struct column columns[] = {
		{"NAME", "name", NULL},
		{"KIND", "kind", NULL},
		{"SIZE", "bytes", put_template_size},
		{"CREATED", "createdAt", NULL},
		{.head = NULL},
	};

	return collection_ls(call, &(struct collection){TEMPLATES_PATH, "", "name", columns});
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
	TRY(request_body(request, &text));
	remote_print(call, &text, call->words[0]);
	return OK;
}

static fallible cli_template_send_dir(struct call *call, struct remote *remote, const char *dir)
{
	struct tar *tar = NULL;
	auto_fd fd = -1;

	TRY(tar_start(dir, NULL, NULL, &tar, &fd));
	return tar_close(tar, &fd, send_archive(call, remote, fd, 0));
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

static fallible export_receive(struct call *call, struct remote *remote, int fd)
{
	on_exit_call(request_drop) struct cove_request *request = NULL;
	auto_buf path = BUF_INIT(1 << 16);
	auto_free char *room = mem_new(PIECE);
	const char *compression = call_value(call, OPT_COMPRESSION);
	struct progress progress;
	uint64_t got = 0;
	struct err *err;
	size_t len = 1;

	buf_text(&path, TEMPLATES_PATH "/");
	text_percent(&path, str_of(call->words[0]));
	buf_fmt(&path, "/export?squash=%s", call_has(call, OPT_SQUASH) ? "true" : "false");
	if (compression) {
		buf_text(&path, "&compression=");
		text_percent(&path, str_of(compression));
	}
	TRY(remote_did(remote, cove_request_open(remote->cove, "GET", path.at, NULL, &request,
						 &remote->error)));
	TRY(remote_did(remote, cove_request_finish(request, &remote->error)));
	progress_start(&progress, "received", call_has(call, OPT_QUIET));
	for (err = OK; !err && len; got += len) {
		err = remote_did(remote,
				 cove_request_read(request, room, PIECE, &len, &remote->error));
		if (!err && len)
			err = stdio_write(fd, room, len);
		progress_show(&progress, got, 0);
	}
	progress_end(&progress);
	return err;
}

// A file that was not written to its end is removed: it could be taken for the whole.
static fallible export_to_file(struct call *call, struct remote *remote, const char *path)
{
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	struct err *err;

	if (fd < 0)
		return err_new(INVALID, "no_file", "cannot write '%s': %s", path, strerror(errno));
	err = export_receive(call, remote, fd);
	if (!err && close(take_fd(&fd)))
		err = err_new(NO_SPACE, "no_file", "cannot write '%s': %s", path, strerror(errno));
	if (err)
		unlink(path);
	return err;
}

fallible cli_template_export(struct call *call)
{
	const char *to = call_value(call, OPT_OUTPUT);
	auto_remote remote = {0};

	if (!to && isatty(STDOUT_FILENO))
		return err_hint(err_new(INVALID, "no_archive", "standard output is a terminal"),
				"cove template export %s -o %s.tar", call->words[0],
				call->words[0]);
	TRY(remote_open(&remote, call));
	return to ? export_to_file(call, &remote, to)
		  : export_receive(call, &remote, STDOUT_FILENO);
}

fallible cli_template_freeze(struct call *call)
{
	auto_buf body = BUF_INIT(1 << 20);
	struct json_out out = json_to(&body);

	json_begin(&out, '{');
	json_put_text(&out, "name", call->words[0]);
	json_put_text(&out, "from", "host");
	json_end(&out, '}');
	return remote_act(call, "POST", TEMPLATES_PATH, &body, NULL);
}

fallible cli_template_rm(struct call *call)
{
	return collection_rm(call, TEMPLATES_PATH);
}
