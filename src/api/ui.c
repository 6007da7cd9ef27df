// The files of the dashboard, embedded by the build: an index in lines, then the bytes of each file
// as they are, by gzip and by brotli. Their names hold a hash of their content, so that they may be
// kept for ever; the page itself is asked for each time. They hold no data, and need no key.
#include "api/ui.h"

#include "api/handlers.h"
#include "gateway/gateway.h"

#define POLICY                                                                                     \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "    \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "        \
	"require-trusted-types-for 'script'; trusted-types 'none'"
#define INDEX "index.html"
#define ABSENT                                                                                     \
	"<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>cove</title>"             \
	"<h1>This cove has no dashboard</h1><p>It was built without one: npm reached no "          \
	"registry, or WEB=0 was given. Build it again where npm works. The API and the command "   \
	"line are complete.</p></html>\n"

// build/web/dashboard.pack
extern const char dashboard_start[], dashboard_end[];

enum ui_form { UI_PLAIN, UI_GZIP, UI_BROTLI, UI_FORMS };

struct ui_file {
	struct str type, hash;
	struct str forms[UI_FORMS];
};

// Fields of a line, divided by one space: path, hash, three lengths, type to the end of the line.
static bool ui_read_line(struct str line, struct str *path, uint64_t lengths[UI_FORMS],
			 struct ui_file *out)
{
	struct str word;

	if (!str_cut(&line, ' ', path) || !str_cut(&line, ' ', &out->hash))
		return false;
	for (int i = 0; i < UI_FORMS; i++)
		if (!str_cut(&line, ' ', &word) || !str_to_u64(word, 0, INT32_MAX, &lengths[i]))
			return false;
	out->type = line;
	return true;
}

// False: there is no such file. The lengths are those of the build, and are checked all the same.
static bool ui_find(struct str wanted, struct ui_file *out)
{
	struct str pack = {dashboard_start, (size_t)(dashboard_end - dashboard_start)};
	uint64_t lengths[UI_FORMS], at = 0, found_at = 0, found[UI_FORMS] = {0};
	struct str rest = pack, line, path;
	bool is_found = false;
	struct ui_file file;

	while (str_cut(&rest, '\n', &line) && line.len) {
		if (!ui_read_line(line, &path, lengths, &file))
			return false;
		if (path.len == wanted.len && !memcmp(path.at, wanted.at, path.len)) {
			*out = file;
			found_at = at;
			memcpy(found, lengths, sizeof(found));
			is_found = true;
		}
		at += lengths[UI_PLAIN] + lengths[UI_GZIP] + lengths[UI_BROTLI];
	}
	if (!is_found || at != rest.len)
		return false;
	for (int i = 0; i < UI_FORMS; i++) {
		out->forms[i] = (struct str){rest.at + found_at, (size_t)found[i]};
		found_at += found[i];
	}
	return true;
}

struct str ui_build(void)
{
	struct ui_file file;

	return ui_find(STR(INDEX), &file) ? file.hash : STR("");
}

static void ui_set_headers(struct http *x)
{
	http_set(x, "Content-Security-Policy", STR(POLICY));
	http_set(x, "X-Frame-Options", STR("DENY"));
	http_set(x, "X-Content-Type-Options", STR("nosniff"));
	http_set(x, "Referrer-Policy", STR("no-referrer"));
	http_set(x, "Cross-Origin-Opener-Policy", STR("same-origin"));
	http_set(x, "Cross-Origin-Resource-Policy", STR("same-origin"));
}

static fallible ui_send(struct http *x, const struct ui_file *file)
{
	struct str accepted = http_field(x, "Accept-Encoding");
	enum ui_form form = UI_PLAIN;

	if (http_has_token(accepted, STR("br")))
		form = UI_BROTLI;
	else if (http_has_token(accepted, STR("gzip")))
		form = UI_GZIP;
	http_set(x, "Vary", STR("Accept-Encoding"));
	if (form != UI_PLAIN)
		http_set(x, "Content-Encoding", form == UI_GZIP ? STR("gzip") : STR("br"));
	return http_reply(x, 200, str_of(arena_dup(x->arena, file->type.at, file->type.len)).at,
			  file->forms[form]);
}

static fallible ui_send_page(struct http *x)
{
	struct ui_file file;
	const char *tag;

	if (!ui_find(STR(INDEX), &file)) {
		http_set(x, "Cache-Control", STR("no-cache"));
		return http_reply(x, 503, "text/html; charset=utf-8", STR(ABSENT));
	}
	tag = arena_fmt(x->arena, "\"" STR_FMT "\"", STR_ARG(file.hash));
	http_set(x, "Cache-Control", STR("no-cache"));
	http_set(x, "ETag", str_of(tag));
	if (http_has_token(http_field(x, "If-None-Match"), str_of(tag)))
		return http_reply_empty(x, 304);
	return ui_send(x, &file);
}

fallible api_ui_root(struct http *x)
{
	if (!strstr(arena_dup(x->arena,
			      http_field(x, "Accept").at ? http_field(x, "Accept").at : "",
			      http_field(x, "Accept").len),
		    "text/html") &&
	    str_is(x->url.path, "/"))
		return err_hint(
			err_new(NOT_FOUND, "no_route", "The requested endpoint was not found"),
			"the API is beneath /v1, the dashboard at /ui/");
	http_set(x, "Location", STR("/ui/"));
	ui_set_headers(x);
	return http_reply_empty(x, 302);
}

// Beneath assets/ a missing file is missing; every other path is a page of the dashboard.
fallible api_ui(struct http *x)
{
	struct str path = x->params[0];
	struct ui_file file;

	ui_set_headers(x);
	if (!path.at || !str_starts(path, "assets/"))
		return ui_send_page(x);
	if (!ui_find(path, &file))
		return http_reply(x, 404, "text/plain; charset=utf-8", STR("no such file\n"));
	http_set(x, "Cache-Control", STR("max-age=31536000, immutable"));
	return ui_send(x, &file);
}
