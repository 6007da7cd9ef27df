// Builds preview URLs from the configured domain and the listeners' address. Without a port in the
// domain, the listener's port is added unless it is the scheme's default or the operator named a
// scheme.
#include "gateway/urls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "types/hostname.h"

// The address at which a local client reaches a listener on the wildcard address.
static char *urls_reachable(struct str bound)
{
	struct str port = bound;

	for (size_t i = 0; i < bound.len; i++)
		if (bound.at[i] == ':')
			port = str_skip(bound, i + 1);
	if (str_starts(bound, "0.0.0.0:") || str_starts(bound, "[::]:"))
		return mem_fmt("127.0.0.1:" STR_FMT, STR_ARG(port));
	return mem_dup(bound.at, bound.len);
}

static void make_domain(struct str domain, const char *own, bool tls, bool told, struct urls *out)
{
	const char *port = strrchr(own, ':');
	bool plain = told || !port || !strcmp(port, tls ? ":443" : ":80") ||
		     memchr(domain.at, ':', domain.len);

	out->domain = mem_fmt(STR_FMT "%s", STR_ARG(domain), plain ? "" : port);
}

fallible urls_make(struct str domain, struct str bound, bool tls, struct urls *out)
{
	struct str proto = tls ? STR("https") : STR("http"), first = {0}, rest = bound;
	const char *mark = memmem(domain.at, domain.len, "://", 3);
	char name[HOSTNAME_MAX + 1];
	auto_free char *own = NULL;
	uint16_t port;

	if (mark) {
		proto = (struct str){domain.at, (size_t)(mark - domain.at)};
		domain = str_skip(domain, proto.len + 3);
	}
	if ((!str_is(proto, "http") && !str_is(proto, "https")) ||
	    (domain.len && hostname_read_host(domain, name, &port) != HOSTNAME_NAME))
		return err_hint(err_new(INVALID, "bad_config", "preview-domain is malformed"),
				"write preview.example.org, or https://preview.example.org:8443");
	*out = (struct urls){0};
	if (!bound.len)
		return OK;
	str_cut(&rest, ',', &first);
	own = urls_reachable(str_trim(first));
	out->proto = mem_dup(proto.at, proto.len);
	out->path = mem_fmt("%s://%s", tls ? "https" : "http", own);
	if (domain.len)
		make_domain(domain, own, tls, mark != NULL, out);
	return OK;
}

void urls_done(struct urls *urls)
{
	free(urls->proto);
	free(urls->domain);
	free(urls->path);
	*urls = (struct urls){0};
}

static bool urls_is_named(struct hostname_preview *out, const char *id, uint16_t port,
			  const char *token)
{
	size_t id_size = (size_t)snprintf(out->id, sizeof(out->id), "%s", id);
	size_t token_size = (size_t)snprintf(out->token, sizeof(out->token), "%s", token);

	out->port = port;
	return id_size < sizeof(out->id) && token_size < sizeof(out->token);
}

bool urls_host(const struct urls *urls, const char *id, uint16_t port, const char *token,
	       struct buf *out)
{
	struct hostname_preview named;

	if (!urls->domain || !urls_is_named(&named, id, port, token))
		return false;
	buf_fmt(out, "%s://", urls->proto);
	if (!hostname_write_preview(&named, urls->domain, out))
		return false;
	buf_char(out, '/');
	return buf_ok(out);
}

bool urls_path(const struct urls *urls, const char *id, uint16_t port, const char *token,
	       struct buf *out)
{
	if (!urls->path)
		return false;
	buf_fmt(out, "%s/%u-%s%s%s/", urls->path, port, id, *token ? "-" : "", token);
	return buf_ok(out);
}
