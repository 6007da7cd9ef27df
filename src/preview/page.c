// Builds the error page as HTML or JSON, by the Accept header. All text is escaped, and a
// Content-Security-Policy forbids scripts: a part of the text comes from a box.
#include "preview/page.h"

#include "codec/json.h"

#define LISTED_MAX 32
#define PAGE_MAX (64 * 1024)
#define AGAIN_S 2

static bool wants_html(const struct http *x)
{
	struct str accept = http_field(x, "Accept"), part, type;

	while (accept.len && str_cut(&accept, ',', &part)) {
		str_cut(&part, ';', &type);
		if (str_eq_nocase(str_trim(type), STR("text/html")))
			return true;
	}
	return false;
}

static size_t page_listed(const struct page *page)
{
	return page->listening_count < LISTED_MAX ? page->listening_count : LISTED_MAX;
}

static void page_put_text(struct buf *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			buf_text(out, "&lt;");
			break;
		case '&':
			buf_text(out, "&amp;");
			break;
		default:
			buf_char(out, *text);
		}
}

static void put_html(const struct page *page, struct buf *out)
{
	buf_text(out, "<!doctype html><html lang=en><meta charset=utf-8>"
		      "<meta name=viewport content=\"width=device-width\">");
	if (page->waits)
		buf_fmt(out, "<meta http-equiv=refresh content=%d>", AGAIN_S);
	buf_text(out, "<title>");
	page_put_text(out, page->title);
	buf_text(out,
		 "</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;"
		 "margin:20vh auto;padding:0 1rem;color:#222;background:#fff}h1{font-size:1.4rem}"
		 "code{background:#eee;padding:.1em .3em}@media(prefers-color-scheme:dark){"
		 "body{color:#ddd;background:#181818}code{background:#333}}</style>"
		 "<h1>");
	page_put_text(out, page->title);
	buf_text(out, "</h1><p>");
	page_put_text(out, page->text);
	buf_text(out, "</p>");
	if (page->port && page_listed(page)) {
		buf_text(out, "<p>In this sandbox these ports have a listener: ");
		for (size_t i = 0; i < page_listed(page); i++)
			buf_fmt(out, "%s<code>%u</code>", i ? ", " : "", page->listening[i].port);
		buf_fmt(out, "%s.</p>",
			page_listed(page) < page->listening_count ? " and more" : "");
	} else if (page->port) {
		buf_text(out, "<p>In this sandbox no port has a listener.</p>");
	}
	if (page->waits)
		buf_fmt(out, "<p>This page reloads every %d seconds.</p>", AGAIN_S);
}

static void page_put_json(const struct page *page, struct buf *text)
{
	struct json_out out = json_to(text);

	json_begin(&out, '{');
	json_put_text(&out, "error", page->title);
	json_put_text(&out, "code", page->code);
	json_put_text(&out, "message", page->text);
	if (page->port) {
		json_put_int(&out, "port", page->port);
		json_put_begin(&out, "listening", '[');
		for (size_t i = 0; i < page_listed(page); i++)
			json_add_int(&out, page->listening[i].port);
		json_end(&out, ']');
	}
	json_end(&out, '}');
}

fallible page_answer(struct http *x, const struct page *page)
{
	auto_buf text = BUF_INIT(PAGE_MAX);
	bool html = wants_html(x);
	int retry_s = page->waits ? AGAIN_S : page->retry_s;

	if (html)
		put_html(page, &text);
	else
		page_put_json(page, &text);
	if (!buf_ok(&text))
		return err_new(UNAVAILABLE, "no_memory", "there is no memory for this");
	http_set(x, "Cache-Control", STR("no-store"));
	http_set(x, "Vary", STR("Accept"));
	http_set(x, "Referrer-Policy", STR("no-referrer"));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	http_set(x, "Content-Security-Policy",
		 STR("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"));
	if (retry_s)
		http_set(x, "Retry-After", str_of(arena_fmt(x->arena, "%d", retry_s)));
	return http_reply(x, page->status, html ? "text/html; charset=utf-8" : "application/json",
			  buf_view(&text));
}
