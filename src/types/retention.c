// Reads and writes the retention fields of a sandbox. Spans are bounded (30 days), base URLs are
// plain http(s) URLs and set once. Absent fields stay as they are.
#include "types/retention.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec/url.h"

#define SPAN_MIN_MS 1000
#define SPAN_MAX_MS (30ull * 24 * 3600 * 1000)
#define URL_MAX 255

void retention_done(struct retention *retention)
{
	free(retention->base_url);
	retention->base_url = NULL;
}

static fallible bad_span(const char *where)
{
	return err_hint(
		err_new(INVALID, "bad_field", "'%s' must be within 1 second and 30 days", where),
		"seconds as a number, or \"30s\", \"10m\", \"1h\"");
}

fallible retention_read_span(const struct json *value, const char *where, uint64_t *out)
{
	struct str text = {0};
	double seconds = 0;
	uint64_t ms = 0;

	if (!value)
		return OK;
	if (json_type(value) == JSON_NUMBER) {
		auto_err err = json_double(value, where, 1, SPAN_MAX_MS / 1000.0, &seconds);

		if (err)
			return bad_span(where);
		*out = (uint64_t)(seconds * 1000);
		return OK;
	}
	TRY(json_str(value, where, &text));
	// A number as text needs a unit: other APIs would read it as milliseconds.
	if (!text.len || (text.at[text.len - 1] >= '0' && text.at[text.len - 1] <= '9') ||
	    !str_to_ms(text, &ms) || ms < SPAN_MIN_MS || ms > SPAN_MAX_MS)
		return bad_span(where);
	*out = ms;
	return OK;
}

static fallible read_waits(const struct json *waits, struct retention *retention)
{
	static const char *const known[] = {
#define F(field, key, ...) key,
		RETENTION_WAITS(F)
#undef F
			NULL};

	if (!waits)
		return OK;
	TRY(json_want(waits, "containerTimeouts", JSON_OBJECT));
	TRY(json_only(waits, known));
#define F(field, key, stored, least, most, preset)                                                 \
	TRY(json_u64(json_get(waits, key), "containerTimeouts." key, least, most,                  \
		     &retention->waits.field));
	RETENTION_WAITS(F)
#undef F
	return OK;
}

static bool is_base(struct str text)
{
	auto_free char *plain = NULL;
	struct url url = {0};
	bool secure = str_starts(text, "https://");

	if (text.len > URL_MAX || text.len < 8 || text.at[text.len - 1] == '/')
		return false;
	plain = mem_fmt("http" STR_FMT, STR_ARG(str_skip(text, secure ? 5 : 4)));
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("\"<>@\\?#", text.at[i]))
			return false;
	return (secure || str_starts(text, "http://")) && url_absolute(str_of(plain), &url) &&
	       url.host.len && !url.query.len;
}

static fallible read_base(const struct json *value, char **out)
{
	struct str text = {0};

	TRY(json_str(value, "baseUrl", &text));
	if (!text.at)
		return OK;
	if (!is_base(text))
		return err_hint(err_new(INVALID, "bad_field", "'baseUrl' is not a base URL"),
				"http://HOST[:PORT] or https://…, with no slash at its end");
	if (*out && !str_is(text, *out))
		return err_hint(err_new(CONFLICT, "base_url_set",
					"the base URL is set already, and to another one"),
				"it is set once in the life of a sandbox");
	if (!*out)
		*out = mem_dup(text.at, text.len);
	return OK;
}

// 0: never.
static fallible read_archive(const struct json *value, uint64_t *out)
{
	uint64_t none = 1;

	if (value && json_type(value) == JSON_NUMBER)
		err_free(json_u64(value, "archiveAfter", 0, 0, &none));
	if (none)
		return retention_read_span(value, "archiveAfter", out);
	*out = 0;
	return OK;
}

fallible retention_read(const struct json *object, struct retention *out)
{
	struct retention retention = *out;

	TRY(retention_read_span(json_get(object, "sleepAfter"), "sleepAfter",
				&retention.sleep_after_ms));
	TRY(read_archive(json_get(object, "archiveAfter"), &retention.archive_after_ms));
	TRY(json_bool(json_get(object, "keepAlive"), "keepAlive", &retention.keep_alive));
	TRY(read_waits(json_get(object, "containerTimeouts"), &retention));
	TRY(read_base(json_get(object, "baseUrl"), &retention.base_url));
	*out = retention;
	return OK;
}

static void retention_put_span(struct json_out *out, const char *key, uint64_t ms)
{
	static const struct {
		uint64_t ms;
		const char *unit;
	} units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
	char text[32];
	int i = 0;

	while (ms % units[i].ms)
		i++;
	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)(ms / units[i].ms),
		 units[i].unit);
	json_put_text(out, key, ms ? text : NULL);
}

void retention_write(struct json_out *out, const struct retention *retention)
{
	retention_put_span(out, "sleepAfter", retention->sleep_after_ms);
	retention_put_span(out, "archiveAfter", retention->archive_after_ms);
	json_put_bool(out, "keepAlive", retention->keep_alive);
	json_key(out, "containerTimeouts");
	json_begin(out, '{');
#define F(field, key, ...) json_put_int(out, key, (int64_t)retention->waits.field);
	RETENTION_WAITS(F)
#undef F
	json_end(out, '}');
}
