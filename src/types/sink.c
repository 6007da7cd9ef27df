// Reads the settings of sinks from a table of keys. What a kind needs is checked at the end, when
// all of its lines were seen. An address of e-mail goes into commands of SMTP: it has no blank, no
// control character and no angle bracket.
#include "types/sink.h"

#include <string.h>

#include "base/mem.h"
#include "codec/url.h"

#define SINK_PORT 25
#define SINK_ADDRESS_MAX 254

static const char *const sink_kinds[SINK_KIND_COUNT] = {"webhook", "slack", "email",
							"alertmanager"};

static const struct sink_key {
	const char *word;
	size_t at;
	unsigned kinds; // bits of those that have it
	unsigned needed;
} sink_keys[] = {
#define WEB ((1u << SINK_WEBHOOK) | (1u << SINK_SLACK) | (1u << SINK_ALERTMANAGER))
#define MAIL (1u << SINK_EMAIL)
	{"url", offsetof(struct sink, url), WEB, WEB},
	{"secret_file", offsetof(struct sink, secret_file), (1u << SINK_WEBHOOK) | MAIL, 0},
	{"relay", offsetof(struct sink, relay), MAIL, MAIL},
	{"from", offsetof(struct sink, from), MAIL, MAIL},
	{"to", offsetof(struct sink, to), MAIL, MAIL},
	{"user", offsetof(struct sink, user), MAIL, 0},
};
#define SINK_KEYS (sizeof(sink_keys) / sizeof(*sink_keys))

const char *sink_kind_word(enum sink_kind kind)
{
	return sink_kinds[kind];
}

static char **sink_text(struct sink *sink, const struct sink_key *key)
{
	return (char **)((char *)sink + key->at);
}

static fallible sink_wrong(const struct sink *sink, const char *what, const char *hint)
{
	return err_hint(err_new(INVALID, "bad_config", "[alert.%s %s]: %s", sink_kinds[sink->kind],
				sink->name, what),
			"%s", hint);
}

bool sink_relay(struct str text, struct str *host, uint16_t *port)
{
	const char *close = text.len && text.at[0] == '[' ? memchr(text.at, ']', text.len) : NULL;
	const char *colon = NULL;
	uint64_t number = SINK_PORT;

	if (text.len && text.at[0] == '[' && !close)
		return false;
	for (size_t i = close ? (size_t)(close - text.at) : 0; i < text.len; i++)
		colon = text.at[i] == ':' && !colon ? text.at + i : colon;
	*host = (struct str){text.at, colon ? (size_t)(colon - text.at) : text.len};
	if (close) {
		if (close + 1 != (colon ? colon : text.at + text.len))
			return false;
		*host = (struct str){text.at + 1, (size_t)(close - text.at - 1)};
	}
	for (size_t i = 0; i < host->len; i++)
		if (host->at[i] <= ' ' || host->at[i] >= 0x7f)
			return false;
	if (colon && !str_to_u64(str_skip(text, (size_t)(colon - text.at) + 1), 1, 65535, &number))
		return false;
	*port = (uint16_t)number;
	return host->len && host->len <= 253;
}

bool sink_is_address(struct str text)
{
	const char *at = memchr(text.at ? text.at : "", '@', text.len);

	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] <= ' ' || text.at[i] >= 0x7f || strchr("<>()[]\\,;:\"", text.at[i]))
			return false;
	return at && at != text.at && at + 1 < text.at + text.len && text.len <= SINK_ADDRESS_MAX &&
	       !memchr(at + 1, '@', (size_t)(text.at + text.len - at - 1));
}

static fallible sink_check_mail(const struct sink *sink)
{
	struct str rest = str_of(sink->to), word, host;
	uint16_t port;

	if (!sink_relay(str_of(sink->relay), &host, &port))
		return sink_wrong(sink, "relay is malformed", "write mail.example.com:587");
	if (!sink_is_address(str_of(sink->from)))
		return sink_wrong(sink, "from is no address", "write cove@example.com");
	if (!sink->user != !sink->secret_file || (sink->user && !*sink->user))
		return sink_wrong(sink, "user and secret_file belong together",
				  "secret_file has the password of the user");
	while (rest.len && str_cut(&rest, ',', &word))
		if (!sink_is_address(str_trim(word)))
			return sink_wrong(sink, "to is no list of addresses",
					  "write ops@example.com, on-call@example.com");
	return OK;
}

static fallible sink_check(const struct sink *sink)
{
	struct url url;

	for (size_t i = 0; i < SINK_KEYS; i++)
		if (sink_keys[i].needed & (1u << sink->kind) &&
		    !*sink_text((struct sink *)sink, &sink_keys[i]))
			return sink_wrong(sink, "a setting is missing", sink_keys[i].word);
	if (sink->kind == SINK_EMAIL)
		return sink_check_mail(sink);
	if (!url_absolute(str_of(sink->url), &url) || url.query.len > SINK_TEXT_MAX ||
	    !(str_is(url.scheme, "http") || str_is(url.scheme, "https")))
		return sink_wrong(sink, "url is malformed", "write https://hooks.example.com/path");
	return OK;
}

static bool sink_read_severities(struct sink *sink, struct str text)
{
	struct str word;

	sink->warnings = sink->criticals = false;
	while (text.len && str_cut(&text, ',', &word)) {
		word = str_trim(word);
		if (str_is(word, "warning"))
			sink->warnings = true;
		else if (str_is(word, "critical"))
			sink->criticals = true;
		else
			return false;
	}
	return sink->warnings || sink->criticals;
}

static fallible sink_set(struct sink *sink, struct str key, struct str value)
{
	if (value.len > SINK_TEXT_MAX)
		return sink_wrong(sink, "a value is too long", "it has 1024 bytes at most");
	if (str_is(key, "severities"))
		return sink_read_severities(sink, value)
			       ? OK
			       : sink_wrong(sink, "severities is malformed",
					    "write warning, critical");
	for (size_t i = 0; i < SINK_KEYS; i++) {
		char **text = sink_text(sink, &sink_keys[i]);

		if (!str_is(key, sink_keys[i].word) || !(sink_keys[i].kinds & (1u << sink->kind)))
			continue;
		free(*text);
		*text = mem_dup(value.at, value.len);
		return OK;
	}
	return sink_wrong(sink, "there is no such setting",
			  "url, secret_file, severities; for email relay, from, to, user");
}

static fallible sink_find(struct sink *room, size_t *count, struct str kind, struct str name,
			  struct sink **out)
{
	struct sink made = {.kind = SINK_KIND_COUNT, .warnings = true, .criticals = true};

	for (size_t i = 0; i < SINK_KIND_COUNT; i++)
		if (str_is(kind, sink_kinds[i]))
			made.kind = (enum sink_kind)i;
	if (made.kind == SINK_KIND_COUNT)
		return err_hint(err_new(INVALID, "bad_config",
					"there is no sink [alert." STR_FMT "]", STR_ARG(kind)),
				"webhook, slack, email, alertmanager");
	if (!id_is_name(name))
		return err_hint(err_new(INVALID, "bad_config", "a sink has no proper name"),
				"write [alert.webhook ops]: a-z, 0-9 and '-'");
	for (size_t i = 0; i < *count; i++)
		if (str_is(name, room[i].name)) {
			*out = &room[i];
			return room[i].kind == made.kind
				       ? OK
				       : sink_wrong(&room[i], "the name is used twice",
						    "names are unique among all sinks");
		}
	if (*count == SINKS_MAX)
		return err_new(INVALID, "bad_config", "there are more than %d sinks", SINKS_MAX);
	memcpy(made.name, name.at, name.len);
	room[*count] = made;
	*out = &room[(*count)++];
	return OK;
}

static fallible sinks_read_lines(struct str text, struct sink *room, size_t *count)
{
	struct str line, kind, name, key;

	while (text.len && str_cut(&text, '\n', &line)) {
		struct sink *sink = NULL;

		if (!line.len)
			continue;
		if (!str_cut(&line, ' ', &kind) || !str_cut(&line, ' ', &name) ||
		    !str_cut(&line, '=', &key) || !line.at || memchr(line.at, 0, line.len))
			return err_new(INVALID, "bad_config",
				       "the settings of a sink are malformed");
		TRY(sink_find(room, count, kind, name, &sink));
		TRY(sink_set(sink, key, line));
	}
	for (size_t i = 0; i < *count; i++)
		TRY(sink_check(&room[i]));
	return OK;
}

fallible sinks_read(struct str text, struct sink *room, size_t *out_count)
{
	size_t count = 0;
	struct err *err = sinks_read_lines(text, room, &count);

	if (err) {
		sinks_done(room, count);
		return err;
	}
	*out_count = count;
	return OK;
}

void sinks_done(struct sink *sinks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < SINK_KEYS; k++) {
			free(*sink_text(&sinks[i], &sink_keys[k]));
			*sink_text(&sinks[i], &sink_keys[k]) = NULL;
		}
}
