// Changes the network of a sandbox: blocked, or open to lists of domains and of address ranges, or
// as its tenant may have it. A change keeps what else cove's policy has: secrets, inspection, rules
// and budgets.
#include "daytona/handlers.h"
#include "daytona/network.h"
#include "gateway/gateway.h"
#include "manager/change.h"

#define POLICY_TEXT_MAX (1 << 20)
#define LIST_TEXT_MAX (64 * 1024)

// The members that Daytona has no word for.
static void network_put_rest(struct json_out *out, const struct json *now)
{
	struct json *value = NULL;
	struct str key;

	for (size_t at = 0; json_next(now, &at, &key, &value);)
		if (!str_is(key, "mode") && !str_is(key, "allow")) {
			json_key(out, key.at);
			json_add_value(out, value);
		}
}

static void network_put_mode(struct json_out *out, const struct network_lists *lists,
			     const struct entry *entry)
{
	if (lists->blocks)
		json_put_text(out, "mode", "off");
	else if (lists->domains.len || lists->addresses.len)
		network_put_lists(out, lists);
	else
		json_put_text(out, "mode",
			      policy_mode_word(tenant_network(&entry->account->tenant)));
}

// Writes the body of a PATCH. A list that is not given stays, unless all is blocked.
static fallible network_write(const struct entry *entry, const struct network_lists *given,
			      struct buf *text)
{
	const struct policy *policy = entry->record.network;
	auto_buf domains = BUF_INIT(LIST_TEXT_MAX), addresses = BUF_INIT(LIST_TEXT_MAX);
	auto_buf now_text = BUF_INIT(POLICY_TEXT_MAX);
	struct json_out now_out = json_to(&now_text), out = json_to(text);
	struct network_lists lists = *given;
	auto_json now = NULL;

	if (policy && policy->mode == POLICY_ALLOW) {
		network_list(policy, false, &domains);
		network_list(policy, true, &addresses);
	}
	if (!given->domains.at)
		lists.domains = buf_view(&domains);
	if (!given->addresses.at)
		lists.addresses = buf_view(&addresses);
	if (given->domains.len || given->addresses.len)
		lists.blocks = false;
	else if (!given->blocks_said)
		lists.blocks = policy && policy->mode == POLICY_OFF;
	policy_write(&now_out, policy ? policy : &POLICY_INIT(POLICY_OFF));
	TRY(json_read_any(buf_view(&now_text), &now));
	json_begin(&out, '{');
	json_put_begin(&out, "network", '{');
	network_put_mode(&out, &lists, entry);
	network_put_rest(&out, now);
	json_end(&out, '}');
	json_end(&out, '}');
	return buf_ok(text) ? OK : err_new(TOO_LARGE, "body_too_large", "the policy is too large");
}

fallible daytona_network_settings(struct http *x)
{
	auto_buf text = BUF_INIT(POLICY_TEXT_MAX);
	struct network_lists lists = {0};
	auto_json body = NULL;
	auto_json change = NULL;
	const struct record *record;
	auto_entry entry = NULL;

	TRY(gateway_object(x, &body));
	TRY(network_read(body, &lists));
	if (!lists.blocks_said && !lists.domains.at && !lists.addresses.at)
		return err_new(INVALID, "bad_field",
			       "there must be networkBlockAll, networkAllowList or "
			       "domainAllowList");
	if (lists.blocks && (lists.domains.len || lists.addresses.len))
		return err_new(INVALID, "bad_field",
			       "'networkBlockAll' and a list exclude each other");
	TRY(gateway_entry(x, ACCESS_MAKE, &entry));
	TRY(network_write(entry, &lists, &text));
	TRY(json_read(buf_view(&text), &change));
	TRY(change_box(gateway_of(x)->manager, gateway_who(x), x->params[0], change, &record));
	return daytona_sandbox_get(x);
}
