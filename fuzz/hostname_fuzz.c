// Names of hosts, Host fields and the hosts of previews. What is accepted is in its one form
// already when it is read again, and nothing in it can be taken for anything else.
#include "types/hostname.h"

#include <ctype.h>

#include "fuzz.h"
#include "types/address.h"

static void try_name(struct str text)
{
	char name[HOSTNAME_MAX + 1], again[HOSTNAME_MAX + 1];
	enum hostname_kind kind = hostname_read(text, name);
	struct address address;

	if (kind == HOSTNAME_BAD) {
		MUST(!name[0]);
		return;
	}
	MUST(hostname_read(str_of(name), again) == kind && !strcmp(name, again));
	MUST(address_read(str_of(name), &address) == (kind == HOSTNAME_LITERAL));
	for (const char *c = name; kind == HOSTNAME_NAME && *c; c++)
		MUST(islower(*c) || isdigit(*c) || *c == '.' || *c == '-');
	MUST(hostname_is_beneath(name, name));
}

static void try_host(struct str text)
{
	char name[HOSTNAME_MAX + 1], again[HOSTNAME_MAX + 1];
	uint16_t port = 1;

	if (hostname_read_host(text, name, &port) == HOSTNAME_BAD)
		MUST(!name[0] && port == 1);
	else
		MUST(hostname_read(str_of(name), again) != HOSTNAME_BAD && !strcmp(name, again));
}

static void try_preview(struct str text)
{
	struct hostname_preview one, two;
	auto_buf host = BUF_INIT(1024);

	if (!hostname_read_preview(text, "p.test", &one))
		return;
	MUST(one.port && one.id[0] && !strchr(one.token, '-')); // the token may be elsewhere
	MUST(hostname_write_preview(&one, "p.test", &host));
	MUST(hostname_read_preview(buf_view(&host), "p.test:80", &two));
	MUST(one.port == two.port && !strcmp(one.id, two.id) && !strcmp(one.token, two.token));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len};

	try_name(text);
	try_host(text);
	try_preview(text);
	return 0;
}
