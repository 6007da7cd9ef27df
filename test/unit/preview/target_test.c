// Who is let in, as far as it can be told without a box that runs.
#include "preview/target.h"

#include "base/mem.h"
#include "box/ask.h"
#include "preview/preview.h"
#include "unit/http/house.h"

#define DOMAIN "p.example.org"

static struct {
	struct admit *admit;
	struct ask *ask;
	struct manager *manager;
	struct authenticate *auth;
	struct preview *preview;
	struct urls urls;
	uint8_t key[SECRET_HASH];
	uint16_t port;
	struct entry *entry;
	char token[PREVIEW_TOKEN_TOKEN_MAX + 1];
} place;

static struct entry *add_box(enum state state)
{
	struct record record = {.state = state, .retention = RETENTION_DEFAULT};
	struct entry *entry;

	id_box(record.id);
	snprintf(record.short_id, sizeof(record.short_id), "%.12s", record.id + 4);
	snprintf(record.tenant, sizeof(record.tenant), "acme");
	snprintf(record.template, sizeof(record.template), "host");
	entry = table_restore(place.manager, &record);
	return entry;
}

static void open_place(void)
{
	struct preview_options options = {.urls = &place.urls, .limits = HTTP_LIMITS_DEFAULT};
	auto_free char *bound = NULL;
	int fd = -1;

	if (admit_open(&place.admit))
		abort();
	place.ask = ask_open(inside_loop, "/nonexistent/warden.sock");
	place.manager = manager_new(&(struct manager_options){
		.loop = inside_loop,
		.ask = place.ask,
		.admit = place.admit,
		.sockets = "/nonexistent",
		.tapes_dir = -1,
		.boxes_max = 10,
		.output_max = 1 << 30,
	});
	secret_random(place.key, sizeof(place.key));
	CHECK_OK(dial_listen(STR("127.0.0.1:0"), &fd, &place.port));
	bound = mem_fmt("127.0.0.1:%u", place.port);
	CHECK_OK(urls_make(STR(DOMAIN), str_of(bound), false, &place.urls));
	place.auth = authenticate_new(inside_loop,
				      &(struct authenticate_options){.bound = str_of(bound)});
	options.manager = place.manager;
	options.auth = place.auth;
	options.key = place.key;
	CHECK_OK(preview_open(&options, &place.preview));
	CHECK_OK(preview_listen(place.preview, fd));
	place.entry = add_box(STATE_STOPPED);
	snprintf(place.token, sizeof(place.token), "%s",
		 exposed_ports_add(&place.entry->ports, 8080, STR(""))->token);
}

static void close_place(void)
{
	for (int i = 0; i < 200 && !preview_is_idle(place.preview); i++)
		inside_sleep(5);
	preview_free(place.preview);
	authenticate_free(place.auth);
	manager_free(place.manager);
	ask_close(place.ask);
	admit_close(place.admit);
	urls_done(&place.urls);
}

static void talk(const char *words, struct buf *out)
{
	struct stream stream = {.fd = -1};

	buf_clear(out);
	CHECK_OK(dial_tcp(inside_loop, STR("127.0.0.1"), place.port, inside_now() + 2000, &stream));
	CHECK_OK(stream_write(&stream, words, strlen(words), 2000));
	house_hear(&stream, out, 5000);
	stream_close(&stream);
}

// One request; its status, and its body in `out`.
static int ask(const char *host, const char *path, const char *more, struct buf *out)
{
	auto_free char *words = mem_fmt(
		"GET %s HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", path, host, more);

	talk(words, out);
	return house_status(out);
}

static const char *body_of(const struct buf *text)
{
	const char *at = text->at ? strstr(text->at, "\r\n\r\n") : NULL;

	return at ? at + 4 : "";
}

static int by_host(unsigned port, const char *id, const char *token, struct buf *out)
{
	auto_free char *host = mem_fmt("%u-%s-%s." DOMAIN, port, id, token);

	return ask(host, "/", "", out);
}

static int by_path(unsigned port, const char *id, const char *token, struct buf *out)
{
	auto_free char *host = mem_fmt("127.0.0.1:%u", place.port);
	auto_free char *path = mem_fmt("/%u-%s-%s/", port, id, token);

	return ask(host, path, "", out);
}

TASK_TEST(one_answer, "a wrong token, a wrong port, another's box and none at all are one answer")
{
	auto_buf first = BUF_INIT(65536), out = BUF_INIT(65536);
	const char *id;

	open_place();
	id = place.entry->record.short_id;
	CHECK(by_host(8080, id, "wrong", &first) == 404);
	CHECK(strstr(first.at, "INVALID_TOKEN"));
	CHECK(by_host(8081, id, place.token, &out) == 404);
	CHECK_STR(body_of(&out), body_of(&first));
	CHECK(by_host(8080, "ffffffffffff", place.token, &out) == 404);
	CHECK_STR(body_of(&out), body_of(&first));
	CHECK(by_path(8080, id, "wrong", &out) == 404);
	CHECK_STR(body_of(&out), body_of(&first));
	// A link that was signed by somebody else.
	CHECK(by_path(8080, id, "abcdefghijklmnopqrstuvwxyz0123456789abc", &out) == 404);
	CHECK_STR(body_of(&out), body_of(&first));
	close_place();
}

TASK_TEST(stopped, "a right token of a box that was stopped by request is 410, and says so")
{
	auto_buf out = BUF_INIT(65536);
	const char *id;

	open_place();
	id = place.entry->record.short_id;
	CHECK(by_host(8080, id, place.token, &out) == 410 && strstr(out.at, "STALE_PREVIEW_URL"));
	CHECK(by_path(8080, id, place.token, &out) == 410 && strstr(out.at, "STALE_PREVIEW_URL"));
	place.entry->ports.at[0].ends_ms = 1;
	CHECK(by_host(8080, id, place.token, &out) == 410 && strstr(out.at, "PREVIEW_EXPIRED"));
	exposed_ports_drop(&place.entry->ports, 8080);
	CHECK(by_host(8080, id, place.token, &out) == 404);
	close_place();
}

TASK_TEST(links, "a signed link opens what its token opens until it ends, and not a day longer")
{
	auto_buf out = BUF_INIT(65536);
	char link[PREVIEW_TOKEN_LINK_LEN + 1];
	struct preview_token preview_token;
	const char *id;

	open_place();
	id = place.entry->record.short_id;
	preview_token = (struct preview_token){place.entry->record.id, 8080, place.token, 0};
	preview_token_sign(place.key, &preview_token, clock_steady_ms() + 60000, link);
	CHECK(by_host(8080, id, link, &out) == 410 && strstr(out.at, "STALE_PREVIEW_URL"));
	preview_token_sign(place.key, &preview_token, clock_steady_ms() - 60000, link);
	CHECK(by_host(8080, id, link, &out) == 410 && strstr(out.at, "PREVIEW_EXPIRED"));
	// Under another token it is nothing.
	preview_token_sign(place.key, &preview_token, clock_steady_ms() + 60000, link);
	snprintf(place.entry->ports.at[0].token, PREVIEW_TOKEN_TOKEN_MAX + 1, "other");
	CHECK(by_host(8080, id, link, &out) == 404);
	close_place();
}

TASK_TEST(guessing, "repeated guesses get 429, and a valid token still works")
{
	auto_buf out = BUF_INIT(65536);
	int wrong = 0, held = 0;
	const char *id;

	open_place();
	id = place.entry->record.short_id;
	for (int i = 0; i < 200; i++) {
		int status = by_host(8080, id, "wrong", &out);

		wrong += status == 404;
		held += status == 429;
	}
	CHECK(wrong > 0 && held > 0 && wrong + held == 200);
	CHECK(by_host(8080, id, place.token, &out) == 410);
	close_place();
}

TASK_TEST(places, "an unknown path is not found, and a foreign host is refused")
{
	auto_free char *own = NULL;
	auto_buf out = BUF_INIT(65536);

	open_place();
	own = mem_fmt("127.0.0.1:%u", place.port);
	CHECK(ask(own, "/", "", &out) == 404 && strstr(out.at, "NO_PREVIEW"));
	CHECK(ask(own, "/v1/sandboxes", "", &out) == 404);
	CHECK(ask("evil.example", "/8080-0123456789ab-x/", "", &out) == 421);
	CHECK(ask("0-0123456789ab-x." DOMAIN, "/", "", &out) == 404);
	CHECK(ask("65536-0123456789ab-x." DOMAIN, "/", "", &out) == 404);
	CHECK(ask("-1-0123456789ab-x." DOMAIN, "/", "", &out) == 404);
	CHECK(ask("x." DOMAIN, "/", "", &out) == 404 && strstr(out.at, "INVALID_TOKEN"));
	CHECK(ask("x" DOMAIN, "/", "", &out) == 421);
	close_place();
}

TASK_TEST(pages, "a browser gets a page, a program gets JSON, and neither is kept")
{
	auto_buf out = BUF_INIT(65536);
	auto_free char *host = NULL;

	open_place();
	host = mem_fmt("8080-%s-%s." DOMAIN, place.entry->record.short_id, place.token);
	CHECK(ask(host, "/", "Accept: text/html,*/*;q=0.8\r\n", &out) == 410);
	CHECK(strstr(out.at, "Content-Type: text/html") && strstr(out.at, "<h1>") &&
	      strstr(out.at, "Cache-Control: no-store"));
	CHECK(ask(host, "/", "Accept: */*\r\n", &out) == 410);
	CHECK(strstr(out.at, "Content-Type: application/json"));
	close_place();
}
