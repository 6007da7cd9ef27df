// The reply is "CODE-text" any number of times, then "CODE text" or "CODE". Lengths are limited,
// and a byte that is no text makes the reply bad: it may reach a log.
#include "codec/smtp.h"

#include <string.h>

#include "base/auto.h"
#include "base/secret.h"
#include "codec/text.h"

#define SMTP_LINE_MAX 900

static bool smtp_is_text(char c)
{
	return c == '\t' || (c >= ' ' && c != 0x7f);
}

// The code of a line, and whether it is the last one.
static bool smtp_read_line(struct str line, int *code, bool *last, struct str *text)
{
	if (line.len < 3 || line.at[0] < '2' || line.at[0] > '5')
		return false;
	for (int i = 0; i < 3; i++)
		if (line.at[i] < '0' || line.at[i] > '9')
			return false;
	if (line.len > 3 && line.at[3] != ' ' && line.at[3] != '-')
		return false;
	for (size_t i = 3; i < line.len; i++)
		if (!smtp_is_text(line.at[i]))
			return false;
	*code = (line.at[0] - '0') * 100 + (line.at[1] - '0') * 10 + line.at[2] - '0';
	*last = line.len == 3 || line.at[3] == ' ';
	*text = str_trim(str_skip(line, 4));
	return true;
}

// "AUTH LOGIN PLAIN", or "AUTH=PLAIN" of old servers.
static bool smtp_offers_plain(struct str text)
{
	struct str word;

	if (text.len < 5 || !str_eq_nocase((struct str){text.at, 4}, STR("AUTH")) ||
	    (text.at[4] != ' ' && text.at[4] != '='))
		return false;
	text = str_skip(text, 5);
	while (text.len && str_cut(&text, ' ', &word))
		if (str_eq_nocase(word, STR("PLAIN")))
			return true;
	return false;
}

enum smtp_verdict smtp_reply(struct str bytes, struct smtp_reply *out)
{
	struct smtp_reply reply = {0};
	bool last = false;

	while (!last) {
		struct str rest = str_skip(bytes, reply.size), line;
		const char *end = rest.len ? memchr(rest.at, '\n', rest.len) : NULL;
		int code = 0;

		if (!end)
			return bytes.len >= SMTP_REPLY_MAX ? SMTP_TOO_LARGE : SMTP_MORE;
		line = (struct str){rest.at, (size_t)(end - rest.at)};
		reply.size += line.len + 1;
		if (reply.size > SMTP_REPLY_MAX)
			return SMTP_TOO_LARGE;
		if (line.len && line.at[line.len - 1] == '\r')
			line.len--;
		if (!smtp_read_line(line, &code, &last, &reply.text) ||
		    (reply.code && code != reply.code))
			return SMTP_BAD;
		reply.code = code;
		reply.has_starttls |= str_eq_nocase(reply.text, STR("STARTTLS"));
		reply.has_plain |= smtp_offers_plain(reply.text);
	}
	*out = reply;
	return SMTP_DONE;
}

bool smtp_put_plain(struct buf *out, struct str user, struct str password)
{
	on_exit_call(secret_buf_done) struct buf raw = BUF_INIT(SMTP_REPLY_MAX);

	raw.is_secret = true;
	if (!user.len || !password.len || memchr(user.at, 0, user.len) ||
	    memchr(password.at, 0, password.len))
		return false;
	buf_char(&raw, 0);
	buf_str(&raw, user);
	buf_char(&raw, 0);
	buf_str(&raw, password);
	if (!buf_ok(&raw))
		return false;
	text_base64(out, raw.at, raw.len);
	return buf_ok(out);
}

static char smtp_ascii(char c)
{
	return c >= ' ' && c < 0x7f ? c : '?';
}

void smtp_put_header(struct buf *out, const char *name, struct str value)
{
	buf_fmt(out, "%s: ", name);
	for (size_t i = 0; i < value.len && i < SMTP_LINE_MAX; i++)
		buf_char(out, smtp_ascii(value.at[i]));
	buf_text(out, "\r\n");
}

void smtp_put_body(struct buf *out, struct str text)
{
	size_t column = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (c == '\n' || column == SMTP_LINE_MAX) {
			buf_text(out, "\r\n");
			column = 0;
		}
		if (c == '\n' || c == '\r')
			continue;
		if (!column && c == '.')
			buf_char(out, '.');
		buf_char(out, c == '\t' ? c : smtp_ascii(c));
		column++;
	}
	buf_text(out, column ? "\r\n.\r\n" : ".\r\n");
}
