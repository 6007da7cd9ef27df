// The field `network`. What is accepted is written and read again as the same; its judge is never
// easier on what is written in other words. Behind a NUL comes a request: "NAME METHOD TARGET".
#include "types/policy.h"

#include "fuzz.h"

static void text_of(const struct policy *policy, bool is_saved, struct buf *out)
{
	struct json_out json = json_to(out);

	if (is_saved)
		policy_save(&json, policy);
	else
		policy_write(&json, policy);
}

static void try_again(const struct policy *policy)
{
	auto_buf one = BUF_INIT(8 << 20), two = BUF_INIT(8 << 20);
	auto_policy again = POLICY_INIT(POLICY_OFF);
	auto_json json = NULL;
	auto_err err = NULL;

	text_of(policy, true, &one);
	MUST(buf_ok(&one));
	err = json_read_any(buf_view(&one), &json);
	MUST(!err);
	err = policy_load(json, &again);
	MUST(!err);
	text_of(&again, true, &two);
	MUST(str_eq(buf_view(&one), buf_view(&two)));
}

static void try_judge(const struct policy *policy, struct str request)
{
	char name[HOSTNAME_MAX + 1];
	struct str word, method = {0};
	enum hostname_kind kind;
	const char *reason = NULL;

	if (!str_cut(&request, ' ', &word))
		return;
	kind = hostname_read(word, name);
	str_cut(&request, ' ', &method);
	for (int port = 79; port < 82; port++) {
		struct policy_verdict verdict = policy_judge(policy, kind, name, (uint16_t)port);
		struct policy_verdict ech = policy_judge_ech(policy, kind, name, (uint16_t)port);

		MUST(verdict.allow ? verdict.rule && !verdict.reason
				   : !verdict.rule && verdict.reason && !verdict.inspect);
		MUST(!ech.allow || verdict.allow);
		MUST(!verdict.allow || policy->mode != POLICY_OFF);
		if (kind == HOSTNAME_NAME && verdict.allow)
			MUST(policy_knows(policy, kind, name));
	}
	if (!policy_judge_request(policy, name, method, request, &reason))
		MUST(reason && policy_has_rules(policy, name));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	struct str text = {(const char *)bytes, len}, first;
	auto_policy policy = POLICY_INIT(POLICY_OFF);
	auto_json json = NULL;
	auto_err err = NULL;

	if (!str_cut(&text, 0, &first))
		return 0;
	err = json_read(first, &json);
	if (err)
		return 0;
	err = policy_read(json, POLICY_ALL, &policy);
	if (err) {
		MUST(err_kind(err) == ERR_INVALID && !policy.allow && !policy.rules);
		return 0;
	}
	for (size_t i = 0; i < policy.secret_count; i++)
		MUST(strlen(policy.secrets[i].placeholder) == POLICY_PLACEHOLDER_LEN);
	try_again(&policy);
	try_judge(&policy, text);
	return 0;
}
