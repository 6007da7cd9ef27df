// A linear search: it costs far less than a request's system calls. A literal segment is compared
// as sent, so a percent-encoded spelling of a route does not match. Only the value of a {name} is
// decoded, and it must stay one segment, but for {name/}. {name*} at the end is the rest of the
// path.
#include "http/router.h"

#include "codec/text.h"

#define SEGMENT_MAX 4096

static bool is_rest(const char *name)
{
	size_t len = strcspn(name, "}");

	return name[len - 1] == '*';
}

// Returns the undecoded values of the {names}; -1: no match.
static int router_match(const char *pattern, struct str path, struct str params[HTTP_PARAMS_MAX])
{
	const char *at = path.at, *end = path.at + path.len;
	int count = 0;

	while (*pattern) {
		const char *start = at;

		if (*pattern != '{') {
			if (at == end || *at != *pattern)
				return -1;
			at++;
			pattern++;
			continue;
		}
		if (is_rest(pattern))
			at = end;
		while (at < end && *at != '/')
			at++;
		if (at == start || count == HTTP_PARAMS_MAX)
			return -1;
		params[count++] = (struct str){start, (size_t)(at - start)};
		pattern += strcspn(pattern, "}");
		pattern += *pattern == '}';
	}
	return at == end ? count : -1;
}

// Whether the value of the {name} of that number may have slashes.
static bool takes_slashes(const char *pattern, int number)
{
	const char *end;

	for (; number >= 0; number--)
		pattern = strchr(pattern, '{') + 1;
	end = strchr(pattern, '}');
	return end[-1] == '*' || end[-1] == '/';
}

static bool is_method(const struct route *row, struct str method)
{
	return str_is(method, row->method) || strcmp(row->method, "*") == 0 ||
	       (str_is(method, "HEAD") && strcmp(row->method, "GET") == 0);
}

static fallible router_decode(struct http *x, struct str raw, bool slashes, struct str *out)
{
	auto_buf plain = BUF_INIT(SEGMENT_MAX);

	if (!text_unpercent(&plain, raw) || !buf_ok(&plain) ||
	    (plain.len > 0 && !slashes && memchr(plain.at, '/', plain.len)))
		return err_hint(err_new(INVALID, "bad_path", "a part of the path is malformed"),
				"escape bytes as %%XX, and leave out %%2F and %%00");
	*out = (struct str){arena_dup(x->arena, plain.at, plain.len), plain.len};
	return OK;
}

static fallible other_method(const struct route *table, struct http *x)
{
	struct str ignored[HTTP_PARAMS_MAX];
	auto_buf allowed = BUF_INIT(256);

	for (const struct route *row = table; row->method; row++) {
		if (router_match(row->pattern, x->url.path, ignored) < 0)
			continue;
		if (allowed.len > 0)
			buf_text(&allowed, ", ");
		buf_text(&allowed, row->method);
	}
	if (allowed.len == 0)
		return err_hint(
			err_new(NOT_FOUND, "no_route", "there is nothing at this path"),
			"the routes are listed in the documentation; check for a trailing slash");
	http_set(x, "Allow", buf_view(&allowed));
	return err_hint(err_new(BAD_METHOD, "bad_method", "this path does not take %.*s",
				STR_ARG(x->head.method)),
			"it takes %s", allowed.at);
}

const struct route *router_join(const struct route *const *tables)
{
	struct route *all;
	size_t count = 0;

	for (const struct route *const *table = tables; *table; table++)
		for (const struct route *row = *table; row->method; row++)
			count++;
	all = mem_new((count + 1) * sizeof(*all));
	for (struct route *to = all; *tables; tables++)
		for (const struct route *row = *tables; row->method; row++)
			*to++ = *row;
	return all;
}

fallible router_find(const struct route *table, struct http *x, const struct route **out)
{
	struct str raw[HTTP_PARAMS_MAX];

	for (const struct route *row = table; row->method; row++) {
		int count;

		if (!is_method(row, x->head.method))
			continue;
		count = router_match(row->pattern, x->url.path, raw);
		if (count < 0)
			continue;
		for (int i = 0; i < count; i++)
			TRY(router_decode(x, raw[i], takes_slashes(row->pattern, i),
					  &x->params[i]));
		x->route = row;
		*out = row;
		return OK;
	}
	return other_method(table, x);
}
