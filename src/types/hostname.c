// Normalises host names: lower case, LDH labels, no final dot. Numeric forms that inet_aton()
// accepts are refused as names, because another parser may read them as addresses. Also splits and
// joins the host names of previews. Input is untrusted; nothing is written on failure.
#include "types/hostname.h"

#include <string.h>

#include "base/id.h"
#include "types/address.h"
#include "types/preview_token.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z');
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

// Letters, digits and inner hyphens, 1 to 63 of them.
static bool is_label(struct str label)
{
	if (!label.len || label.len > HOSTNAME_LABEL_MAX || label.at[0] == '-' ||
	    label.at[label.len - 1] == '-')
		return false;
	for (size_t i = 0; i < label.len; i++)
		if (!is_alnum(label.at[i]) && label.at[i] != '-')
			return false;
	return true;
}

// Numbers that inet_aton() accepts: a name with such a last label may be read as an address.
static bool is_number(struct str label)
{
	bool is_hex = label.len >= 2 && label.at[0] == '0' && label.at[1] == 'x';

	for (size_t i = is_hex ? 2 : 0; i < label.len; i++)
		if (!is_digit(label.at[i]) && !(is_hex && label.at[i] >= 'a' && label.at[i] <= 'f'))
			return false;
	return true;
}

static bool hostname_is_name(struct str name)
{
	struct str rest = name, label, last = {0};

	while (str_cut(&rest, '.', &label)) {
		if (!is_label(label))
			return false;
		last = label;
	}
	return name.len > 0 && !is_number(last);
}

static enum hostname_kind hostname_literal(struct str text, char out[HOSTNAME_MAX + 1])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct address address;
	char shown[ADDRESS_TEXT];

	if (!address_read(text, &address))
		return HOSTNAME_BAD;
	if (address.is_v6 && !memcmp(address.at, mapped, sizeof(mapped))) {
		memmove(address.at, address.at + sizeof(mapped), 4);
		address.is_v6 = false;
	}
	address_write(&address, shown);
	memcpy(out, shown, strlen(shown) + 1);
	return HOSTNAME_LITERAL;
}

enum hostname_kind hostname_read(struct str text, char out[HOSTNAME_MAX + 1])
{
	struct str name;

	out[0] = 0;
	if (!text.len || memchr(text.at, 0, text.len))
		return HOSTNAME_BAD;
	if (memchr(text.at, ':', text.len))
		return hostname_literal(text, out);
	if (text.at[text.len - 1] == '.')
		text.len--;
	if (text.len > HOSTNAME_MAX)
		return HOSTNAME_BAD;
	for (size_t i = 0; i < text.len; i++)
		out[i] = lower(text.at[i]);
	out[text.len] = 0;
	name = (struct str){out, text.len};
	if (hostname_is_name(name))
		return HOSTNAME_NAME;
	out[0] = 0;
	return hostname_literal(text, out);
}

// Removes ":PORT" and the brackets. False: the port is invalid.
static bool split_port(struct str *text, uint16_t *out_port)
{
	struct str port = {0};
	uint64_t number = 0;
	const char *end;

	if (!text->len)
		return false;
	if (text->at[0] == '[') {
		end = memchr(text->at, ']', text->len);
		if (!end || !memchr(text->at, ':', (size_t)(end - text->at)))
			return false;
		port = str_skip(*text, (size_t)(end - text->at) + 1);
		*text = (struct str){text->at + 1, (size_t)(end - text->at) - 1};
	} else {
		end = memchr(text->at, ':', text->len);
		if (end) {
			port = str_skip(*text, (size_t)(end - text->at));
			text->len = (size_t)(end - text->at);
		}
	}
	if (port.len && (port.at[0] != ':' || !str_to_u64(str_skip(port, 1), 1, 65535, &number)))
		return false;
	*out_port = (uint16_t)number;
	return true;
}

enum hostname_kind hostname_read_host(struct str text, char out[HOSTNAME_MAX + 1],
				      uint16_t *out_port)
{
	enum hostname_kind kind;
	uint16_t port;

	out[0] = 0;
	if (!split_port(&text, &port))
		return HOSTNAME_BAD;
	kind = hostname_read(text, out);
	if (kind != HOSTNAME_BAD)
		*out_port = port;
	return kind;
}

bool hostname_is_beneath(const char *name, const char *domain)
{
	size_t len = strlen(name), under = strlen(domain);

	return len >= under && under && !memcmp(name + len - under, domain, under) &&
	       (len == under || name[len - under - 1] == '.');
}

static bool same_domain(struct str a, const char *domain)
{
	struct str b = str_of(domain);
	uint16_t port;

	if (!split_port(&b, &port))
		return false;
	if (a.len && a.at[a.len - 1] == '.')
		a.len--;
	return str_eq_nocase(a, b);
}

static bool copy_lower(struct str text, char *out, size_t size)
{
	if (!text.len || text.len >= size)
		return false;
	for (size_t i = 0; i < text.len; i++)
		out[i] = lower(text.at[i]);
	out[text.len] = 0;
	return true;
}

// "port", "id" and "token" of one label.
static bool read_label(struct str label, struct hostname_preview *out)
{
	char text[HOSTNAME_LABEL_MAX + 1];
	struct str rest, port, id, token;
	const char *dash;
	uint64_t number;

	if (!copy_lower(label, text, sizeof(text)))
		return false;
	rest = str_of(text);
	if (rest.len != label.len) // it contains a NUL
		return false;
	dash = memrchr(rest.at, '-', rest.len);
	if (!dash)
		return false;
	token = str_skip(rest, (size_t)(dash - rest.at) + 1);
	rest.len = (size_t)(dash - rest.at);
	dash = memchr(rest.at, '-', rest.len);
	port = (struct str){rest.at, dash ? (size_t)(dash - rest.at) : rest.len};
	id = dash ? str_skip(rest, port.len + 1) : token;
	if (!dash)
		token = STR("");
	if (!str_to_u64(port, 1, 65535, &number) || port.at[0] == '0' ||
	    !(id_is_short(id) || (token.len && id_is_name(id))) ||
	    (token.len && !preview_token_is_token(token) && !preview_token_is_link(token)))
		return false;
	if (dash && !token.len)
		return false;
	out->port = (uint16_t)number;
	copy_lower(id, out->id, sizeof(out->id));
	out->token[0] = 0;
	copy_lower(token, out->token, sizeof(out->token));
	return true;
}

bool hostname_read_preview(struct str host, const char *domain, struct hostname_preview *out)
{
	struct str label;
	uint16_t port;

	if (!split_port(&host, &port) || !str_cut(&host, '.', &label) || !host.at)
		return false;
	return same_domain(host, domain) && read_label(label, out);
}

bool hostname_write_preview(const struct hostname_preview *preview, const char *domain,
			    struct buf *out)
{
	auto_buf label = BUF_INIT(HOSTNAME_LABEL_MAX);

	buf_fmt(&label, "%u-%s%s%s", preview->port, preview->id, preview->token[0] ? "-" : "",
		preview->token);
	if (!buf_ok(&label))
		return false;
	buf_str(out, buf_view(&label));
	buf_char(out, '.');
	buf_text(out, domain);
	return buf_ok(out);
}
