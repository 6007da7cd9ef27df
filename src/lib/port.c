// Waits for a port of a sandbox, and previews of ports. The server does the probing; the wait is an
// event stream that ends with `ready`, the end of the named process, or a timeout.
#include "base/clock.h"
#include "base/mem.h"
#include "lib/box.h"
#include "lib/fields.h"
#include "lib/http_call.h"

#define BODY_MAX ((size_t)1 << 20)

static void put_wait(struct buf *to, const struct cove_port_wait *wait, const char *process)
{
	struct json_out out = json_to(to);

	json_begin(&out, '{');
	json_put_int(&out, "port", wait->port);
	json_put_text(&out, "mode", wait->path ? "http" : "tcp");
	if (wait->path)
		json_put_text(&out, "path", wait->path);
	if (wait->status_min)
		json_put_int(&out, "statusMin", wait->status_min);
	if (wait->status_max)
		json_put_int(&out, "statusMax", wait->status_max);
	if (process)
		json_put_text(&out, "processId", process);
	json_end(&out, '}');
}

static fallible port_await(struct event_reader *sse, const struct cove_port_wait *wait)
{
	int64_t end = wait->timeout_ms >= 0 ? clock_ms() + wait->timeout_ms : CLOCK_NEVER;

	for (;;) {
		auto_json event = NULL;
		int64_t left = end == CLOCK_NEVER ? -1 : end - clock_ms();
		const char *type;

		TRY(event_reader_next(sse, end == CLOCK_NEVER || left > 0 ? left : 0, &event));
		type = fields_text(event, "type");
		if (strcmp(type, "ready") == 0)
			return OK;
		if (strcmp(type, "process_exited") == 0)
			return err_new(GONE, "process_ended",
				       "the process ended before port %u answered", wait->port);
		if (strcmp(type, "error") == 0)
			return event_reader_error(event);
		if (!event)
			return err_new(
				BAD_PEER, "cut_stream",
				"the connection to the daemon was lost before the port answered");
	}
}

enum cove_kind cove_port_ready(struct cove_box *box, const struct cove_port_wait *wait,
			       const struct cove_process *process, struct cove_error *error)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	auto_free char *path = lib_box_path(box, "/api/port-watch");
	struct event_reader sse = {0};
	struct err *err;

	private_begin(box->cove);
	put_wait(&body, wait, process ? cove_process_id(process) : NULL);
	err = event_reader_open(&sse, box->cove, "POST", path, buf_view(&body), "");
	if (!err)
		err = port_await(&sse, wait);
	event_reader_close(&sse);
	return private_end(box->cove, err, error);
}

static fallible port_expose(struct cove_box *box, uint16_t port,
			    const struct cove_port_options *options, char **out_url)
{
	auto_buf body = BUF_INIT(BODY_MAX);
	struct json_out out = json_to(&body);
	auto_json answer = NULL;

	json_begin(&out, '{');
	json_put_int(&out, "port", port);
	if (options) {
		fields_put_text(&out, "name", options->name);
		fields_put_text(&out, "token", options->token);
		fields_put_number(&out, "expiresIn", (double)options->expires_ms / 1000);
	}
	json_end(&out, '}');
	TRY(lib_box_post(box, "/ports", &body, &answer));
	if (out_url)
		*out_url = mem_str(fields_text(answer, "url"));
	return OK;
}

enum cove_kind cove_port_expose(struct cove_box *box, uint16_t port,
				const struct cove_port_options *options, char **out_url,
				struct cove_error *error)
{
	return private_call(box->cove, port_expose(box, port, options, out_url), error);
}

static fallible port_list(struct cove_box *box, cove_port_fn *each, void *arg)
{
	auto_free char *path = lib_box_path(box, "/ports");
	auto_json answer = NULL;
	struct json *ports;

	TRY(http_call_json(box->cove, "GET", path, NULL, &answer));
	ports = json_get(answer, "items");
	for (size_t i = 0; ports && i < json_count(ports); i++) {
		const struct json *at = json_at(ports, i);
		struct cove_port_info info = {
			.port = (uint16_t)fields_number(at, "port", 0),
			.exposed = fields_flag(at, "exposed"),
			.listening = fields_flag(at, "listening"),
			.name = fields_text(at, "name"),
			.url = fields_text(at, "url"),
			.token = fields_text(at, "token"),
			.expires_at = fields_text(at, "expiresAt"),
		};

		if (each(arg, &info))
			return err_new(CANCELLED, "cancelled", "the callback ended the listing");
	}
	return OK;
}

enum cove_kind cove_port_list(struct cove_box *box, cove_port_fn *each, void *arg,
			      struct cove_error *error)
{
	return private_call(box->cove, port_list(box, each, arg), error);
}

enum cove_kind cove_port_unexpose(struct cove_box *box, uint16_t port, struct cove_error *error)
{
	auto_free char *rest = mem_fmt("/ports/%u", port);
	auto_free char *path = lib_box_path(box, rest);

	return private_call(box->cove, http_call_text(box->cove, "DELETE", path, NULL, NULL, NULL),
			    error);
}
