// Reads and writes the lists of domains and of address ranges that a sandbox may reach. No I/O.
// Daytona has ten entries in each list at most.
#include "daytona/network.h"

#include "types/address.h"

static fallible network_check(struct str list, const char *field, bool addresses)
{
	struct str part;
	size_t count = 0;

	if (addresses && !address_list_is_valid(list))
		return err_hint(err_new(INVALID, "bad_field",
					"'%s' must be a list of address ranges", field),
				"write 192.0.2.0/24,198.51.100.7/32");
	while (list.len && str_cut(&list, ',', &part))
		count += str_trim(part).len > 0;
	if (count > NETWORK_LIST_MAX)
		return err_new(INVALID, "bad_field", "'%s' may have %d entries", field,
			       NETWORK_LIST_MAX);
	return OK;
}

fallible network_read(const struct json *body, struct network_lists *out)
{
	out->blocks_said = json_get(body, "networkBlockAll") != NULL;
	TRY(json_bool(json_get(body, "networkBlockAll"), "networkBlockAll", &out->blocks));
	TRY(json_str(json_get(body, "domainAllowList"), "domainAllowList", &out->domains));
	TRY(json_str(json_get(body, "networkAllowList"), "networkAllowList", &out->addresses));
	TRY(network_check(out->domains, "domainAllowList", false));
	return network_check(out->addresses, "networkAllowList", true);
}

static void network_put_list(struct json_out *out, struct str list, bool addresses)
{
	struct str part;

	while (list.len && str_cut(&list, ',', &part)) {
		auto_buf text = BUF_INIT(HOSTNAME_MAX + 16);

		part = str_trim(part);
		buf_str(&text, part);
		if (addresses && part.len && !memchr(part.at, '/', part.len))
			buf_text(&text, memchr(part.at, ':', part.len) ? "/128" : "/32");
		if (part.len)
			json_add_str(out, buf_ok(&text) ? buf_view(&text) : part);
	}
}

void network_put_lists(struct json_out *out, const struct network_lists *lists)
{
	json_put_text(out, "mode", "allow");
	json_put_begin(out, "allow", '[');
	network_put_list(out, lists->domains, false);
	network_put_list(out, lists->addresses, true);
	json_end(out, ']');
}

void network_put(struct json_out *out, const struct network_lists *lists)
{
	if (!lists->blocks && !lists->domains.len && !lists->addresses.len)
		return;
	json_put_begin(out, "network", '{');
	if (lists->blocks)
		json_put_text(out, "mode", "off");
	else
		network_put_lists(out, lists);
	json_end(out, '}');
}

void network_list(const struct policy *policy, bool addresses, struct buf *out)
{
	for (size_t i = 0; policy && i < policy->allow_count; i++) {
		if (policy->allow[i].is_range != addresses)
			continue;
		buf_text(out, out->len ? "," : "");
		for (const char *at = policy->allow[i].text; *at; at++)
			if (!strchr("[]", *at)) // of an IPv6 address
				buf_char(out, *at);
	}
}
