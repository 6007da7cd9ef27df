// A policy from JSON and to JSON. Every entry is normalised when read, so that comparison is by
// bytes, and the shown policy is the one in force. Each list is bounded; a policy is accepted or
// refused as a whole.
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "types/policy.h"

#define NUMBER_MAX (1ull << 53)
#define METHOD_MAX 32
#define PATTERN_MAX 1024
#define WHERE_MAX 64
#define PLACEHOLDER "cove-secret-"

static fallible bad(const char *where, const char *what)
{
	return err_new(INVALID, "bad_field", "'%s' %s", where, what);
}

// "name", "*.name", each with ":port" where allowed.
static fallible host_read(struct str text, const char *where, bool is_judged,
			  struct policy_host *out)
{
	bool is_suffix = str_starts(text, "*.");
	struct policy_host host = {.is_suffix = is_suffix};
	char name[HOSTNAME_MAX + 1];
	enum hostname_kind kind;

	if (str_is(text, "*"))
		return err_hint(bad(where, "holds '*'"), "mode 'all' allows every name");
	kind = hostname_read_host(str_skip(text, is_suffix ? 2 : 0), name, &host.port);
	if (kind == HOSTNAME_BAD)
		return err_hint(bad(where, "holds what is no name of a host"),
				"write name, *.name or name:port, in ASCII (xn--… for others)");
	host.is_literal = kind == HOSTNAME_LITERAL;
	if (host.is_literal && (is_suffix || !is_judged))
		return bad(where, "holds an address where only names may stand");
	if (host.port && !is_judged)
		return err_hint(bad(where, "holds a port"), "ports belong into 'network.allow'");
	host.name = mem_str(name);
	bool is_v6 = strchr(name, ':') != NULL;

	host.text = mem_fmt("%s%s%s%s", is_suffix ? "*." : "", is_v6 ? "[" : "", name,
			    is_v6 ? "]" : "");
	if (host.port) {
		char *with_port = mem_fmt("%s:%u", host.text, host.port);

		free(host.text);
		host.text = with_port;
	}
	*out = host;
	return OK;
}

static fallible list_want(const struct json *list, const char *where, size_t max)
{
	TRY(json_want(list, where, JSON_ARRAY));
	if (json_count(list) > max)
		return err_new(INVALID, "bad_field", "'%s' has more than %zu entries", where, max);
	return OK;
}

// Entries are added one by one, so that a refused list has an owner that frees it.
static fallible hosts_read(const struct json *list, const char *where, bool is_judged, size_t max,
			   struct policy_host **out, size_t *out_count)
{
	if (!list)
		return OK;
	TRY(list_want(list, where, max));
	*out = mem_new((json_count(list) + 1) * sizeof(**out));
	for (size_t i = 0; i < json_count(list); i++) {
		struct str text = {0};

		TRY(json_want(json_at(list, i), where, JSON_STRING));
		TRY(json_str(json_at(list, i), where, &text));
		TRY(host_read(text, where, is_judged, &(*out)[i]));
		++*out_count;
	}
	return OK;
}

static bool policy_text_is_method(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!(text.at[i] >= 'A' && text.at[i] <= 'Z') && text.at[i] != '-')
			return false;
	return text.len > 0 && text.len <= METHOD_MAX;
}

static bool is_pattern(struct str text)
{
	if (!text.len || text.len > PATTERN_MAX || text.at[0] != '/')
		return false;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if ((uint8_t)c < ' ' || c == 0x7f || c == '\\' || c == '?' || c == '#' ||
		    (c == '*' && i + 1 < text.len))
			return false;
	}
	return true;
}

static fallible runner_read(const struct json *list, const char *where, bool (*is_good)(struct str),
			    const char *what, char ***out)
{
	if (!list)
		return OK;
	TRY(list_want(list, where, POLICY_WORDS_MAX));
	*out = mem_new((json_count(list) + 1) * sizeof(**out));
	for (size_t i = 0; i < json_count(list); i++) {
		struct str text = {0};

		TRY(json_want(json_at(list, i), where, JSON_STRING));
		TRY(json_str(json_at(list, i), where, &text));
		if (!is_good(text))
			return bad(where, what);
		(*out)[i] = mem_dup(text.at, text.len);
	}
	return OK;
}

// Whether every name that `narrow` matches is matched by `wide`.
static bool host_covers(const struct policy_host *wide, const struct policy_host *narrow)
{
	if (!wide->is_suffix)
		return !narrow->is_suffix && !strcmp(wide->name, narrow->name);
	return hostname_is_beneath(narrow->name, wide->name) &&
	       (narrow->is_suffix || strcmp(narrow->name, wide->name) != 0);
}

static bool is_covered(const struct policy_host *hosts, size_t count,
		       const struct policy_host *narrow)
{
	for (size_t i = 0; i < count; i++)
		if (host_covers(&hosts[i], narrow))
			return true;
	return false;
}

// Rules need inspection: without it requests cannot be seen.
static fallible rule_check(const struct policy *policy, const struct policy_rule *rule)
{
	if (is_covered(policy->inspect, policy->inspect_count, &rule->host))
		return OK;
	for (size_t i = 0; i < policy->secret_count; i++)
		if (is_covered(policy->secrets[i].hosts, policy->secrets[i].host_count,
			       &rule->host))
			return OK;
	return err_hint(err_new(INVALID, "rule_not_inspected",
				"'network.rules' names %s, whose requests are not seen",
				rule->host.text),
			"add it to 'network.inspect'");
}

static fallible policy_text_rule_read(const struct json *from, struct policy_rule *out)
{
	static const char *const known[] = {"name", "methods", "paths", NULL};
	struct str name = {0};

	TRY(json_want(from, "network.rules", JSON_OBJECT));
	TRY(json_only(from, known));
	TRY(json_str(json_get(from, "name"), "network.rules.name", &name));
	TRY(host_read(name, "network.rules.name", false, &out->host));
	TRY(runner_read(json_get(from, "methods"), "network.rules.methods", policy_text_is_method,
			"holds what is no method in upper case", &out->methods));
	return runner_read(json_get(from, "paths"), "network.rules.paths", is_pattern,
			   "holds what is no path: /exact or /prefix*", &out->paths);
}

static fallible rules_read(const struct json *list, struct policy *policy)
{
	if (!list)
		return OK;
	TRY(list_want(list, "network.rules", POLICY_RULES_MAX));
	policy->rules = mem_new((json_count(list) + 1) * sizeof(*policy->rules));
	for (size_t i = 0; i < json_count(list); i++) {
		policy->rule_count = i + 1;
		TRY(policy_text_rule_read(json_at(list, i), &policy->rules[i]));
		TRY(rule_check(policy, &policy->rules[i]));
	}
	return OK;
}

static bool policy_text_is_env_name(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '_' &&
		    !(i && c >= '0' && c <= '9'))
			return false;
	}
	return text.len > 0 && text.len <= POLICY_SECRET_NAME_MAX;
}

// The value is put into a request field, where a line break would begin another.
static bool is_value(struct str text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((uint8_t)text.at[i] < ' ' || text.at[i] == 0x7f)
			return false;
	return text.len > 0 && text.len <= POLICY_SECRET_VALUE_MAX;
}

static bool is_placeholder(struct str text)
{
	if (text.len != POLICY_PLACEHOLDER_LEN || !str_starts(text, PLACEHOLDER))
		return false;
	for (size_t i = strlen(PLACEHOLDER); i < text.len; i++)
		if (!memchr("0123456789abcdef", text.at[i], 16))
			return false;
	return true;
}

static char *placeholder_new(void)
{
	char text[POLICY_PLACEHOLDER_LEN + 1];

	memcpy(text, PLACEHOLDER, strlen(PLACEHOLDER));
	secret_hex(text + strlen(PLACEHOLDER), (POLICY_PLACEHOLDER_LEN - strlen(PLACEHOLDER)) / 2);
	return mem_str(text);
}

static fallible secret_read(const struct json *from, bool is_saved, struct policy_secret *out)
{
	static const char *const known[] = {"name", "hosts", "value", NULL};
	static const char *const saved[] = {"name", "hosts", "placeholder", "sealed", NULL};
	struct str name = {0}, value = {0}, placeholder = {0}, sealed = {0};

	TRY(json_want(from, "network.secrets", JSON_OBJECT));
	TRY(json_only(from, is_saved ? saved : known));
	TRY(json_str(json_get(from, "name"), "network.secrets.name", &name));
	if (!policy_text_is_env_name(name))
		return bad("network.secrets.name", "is no name of an environment variable");
	TRY(json_str(json_get(from, "value"), "network.secrets.value", &value));
	if (value.at && !is_value(value))
		return bad("network.secrets.value",
			   "is empty, longer than 16 KiB, or has control characters");
	TRY(json_str(json_get(from, "placeholder"), "network.secrets.placeholder", &placeholder));
	if (is_saved && !is_placeholder(placeholder))
		return bad("network.secrets.placeholder", "is none");
	TRY(json_str(json_get(from, "sealed"), "network.secrets.sealed", &sealed));
	out->name = mem_dup(name.at, name.len);
	out->sealed = sealed.at ? mem_dup(sealed.at, sealed.len) : NULL;
	out->value = value.at ? mem_dup(value.at, value.len) : NULL;
	out->placeholder = is_saved ? mem_dup(placeholder.at, placeholder.len) : placeholder_new();
	TRY(hosts_read(json_get(from, "hosts"), "network.secrets.hosts", false, POLICY_WORDS_MAX,
		       &out->hosts, &out->host_count));
	if (!out->host_count)
		return err_hint(bad("network.secrets.hosts", "is empty"),
				"name the hosts that may get the secret");
	return OK;
}

static struct policy_secret *secret_of(const struct policy *policy, const char *name, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(policy->secrets[i].name, name))
			return &policy->secrets[i];
	return NULL;
}

static fallible secrets_read(const struct json *list, bool is_saved, struct policy *policy)
{
	if (!list)
		return OK;
	TRY(list_want(list, "network.secrets", POLICY_SECRETS_MAX));
	policy->secrets = mem_new((json_count(list) + 1) * sizeof(*policy->secrets));
	for (size_t i = 0; i < json_count(list); i++) {
		policy->secret_count = i + 1;
		TRY(secret_read(json_at(list, i), is_saved, &policy->secrets[i]));
		if (secret_of(policy, policy->secrets[i].name, i))
			return bad("network.secrets", "names one secret twice");
	}
	return OK;
}

static const struct {
	const char *key;
	size_t at;
	uint64_t min;
} budget_rows[] = {
	{"requests", offsetof(struct budget_limits, requests), 0},
	{"connections", offsetof(struct budget_limits, connections), 0},
	{"bytesOut", offsetof(struct budget_limits, bytes_out), 0},
	{"bytesIn", offsetof(struct budget_limits, bytes_in), 0},
	{"perSecond", offsetof(struct budget_limits, per_second), 1},
};
#define BUDGET_ROWS (sizeof(budget_rows) / sizeof(*budget_rows))

static fallible budgets_read(const struct json *from, struct budget_limits *out)
{
	const char *known[BUDGET_ROWS + 1] = {0};
	char where[WHERE_MAX];

	if (!from)
		return OK;
	for (size_t i = 0; i < BUDGET_ROWS; i++)
		known[i] = budget_rows[i].key;
	TRY(json_want(from, "network.budgets", JSON_OBJECT));
	TRY(json_only(from, known));
	for (size_t i = 0; i < BUDGET_ROWS; i++) {
		const struct json *value = json_get(from, budget_rows[i].key);
		uint64_t *to = (uint64_t *)((char *)out + budget_rows[i].at);

		snprintf(where, sizeof(where), "network.budgets.%s", budget_rows[i].key);
		TRY(json_u64(value, where, budget_rows[i].min, NUMBER_MAX, to));
	}
	return OK;
}

static fallible mode_read(const struct json *network, enum policy_mode normal,
			  enum policy_mode *out)
{
	struct str word = {0};

	TRY(json_str(json_get(network, "mode"), "network.mode", &word));
	// A list of names without a mode means mode allow.
	*out = json_get(network, "allow") ? POLICY_ALLOW : normal;
	if (!word.at)
		return OK;
	for (int mode = 0; mode < POLICY_MODES; mode++)
		if (str_is(word, policy_mode_word((enum policy_mode)mode))) {
			*out = (enum policy_mode)mode;
			return OK;
		}
	return bad("network.mode", "must be off, allow or all");
}

static fallible policy_text_read_all(const struct json *network, enum policy_mode normal,
				     bool is_saved, struct policy *out)
{
	static const char *const known[] = {"mode",    "allow", "inspect", "budgets",
					    "secrets", "rules", NULL};
	auto_policy policy = POLICY_INIT(normal);

	if (network) {
		TRY(json_want(network, "network", JSON_OBJECT));
		TRY(json_only(network, known));
		TRY(mode_read(network, normal, &policy.mode));
		TRY(hosts_read(json_get(network, "allow"), "network.allow", true, POLICY_ALLOW_MAX,
			       &policy.allow, &policy.allow_count));
		TRY(hosts_read(json_get(network, "inspect"), "network.inspect", false,
			       POLICY_INSPECT_MAX, &policy.inspect, &policy.inspect_count));
		TRY(budgets_read(json_get(network, "budgets"), &policy.budgets));
		TRY(secrets_read(json_get(network, "secrets"), is_saved, &policy));
		TRY(rules_read(json_get(network, "rules"), &policy));
	}
	*out = policy;
	policy = POLICY_INIT(POLICY_OFF);
	return OK;
}

fallible policy_read(const struct json *network, enum policy_mode normal, struct policy *out)
{
	return policy_text_read_all(network, normal, false, out);
}

fallible policy_load(const struct json *saved, struct policy *out)
{
	return policy_text_read_all(saved, POLICY_OFF, true, out);
}

static fallible secret_inherit(struct policy_secret *to, const struct policy_secret *from)
{
	if (!to->value) {
		if (!from || !from->value)
			return err_hint(err_new(INVALID, "secret_without_value",
						"the secret %s has no value", to->name),
					"send 'value' with it: values are never shown");
		for (size_t i = 0; i < to->host_count; i++)
			if (!is_covered(from->hosts, from->host_count, &to->hosts[i]))
				return err_hint(err_new(INVALID, "secret_without_value",
							"the secret %s is not for %s so far",
							to->name, to->hosts[i].text),
						"send 'value' again to let it go to other hosts");
		to->value = mem_str(from->value);
		to->sealed = from->sealed ? mem_str(from->sealed) : NULL;
	}
	if (from) { // the placeholder in the box's environment stays valid
		free(to->placeholder);
		to->placeholder = mem_str(from->placeholder);
	}
	return OK;
}

fallible policy_inherit(struct policy *fresh, const struct policy *old)
{
	for (size_t i = 0; i < fresh->secret_count; i++) {
		struct policy_secret *secret = &fresh->secrets[i];

		TRY(secret_inherit(secret,
				   old ? secret_of(old, secret->name, old->secret_count) : NULL));
	}
	return OK;
}

static void put_hosts(struct json_out *out, const char *key, const struct policy_host *hosts,
		      size_t count)
{
	json_key(out, key);
	json_begin(out, '[');
	for (size_t i = 0; i < count; i++)
		json_add_text(out, hosts[i].text);
	json_end(out, ']');
}

static void policy_text_put_words(struct json_out *out, const char *key, char **words)
{
	if (!words)
		return;
	json_key(out, key);
	json_begin(out, '[');
	for (; *words; words++)
		json_add_text(out, *words);
	json_end(out, ']');
}

static void policy_text_put_budgets(struct json_out *out, const struct budget_limits *limits)
{
	bool begun = false;

	for (size_t i = 0; i < BUDGET_ROWS; i++) {
		uint64_t value = *(const uint64_t *)((const char *)limits + budget_rows[i].at);

		if (value == BUDGET_NONE)
			continue;
		if (!begun) {
			json_key(out, "budgets");
			json_begin(out, '{');
			begun = true;
		}
		json_put_int(out, budget_rows[i].key, (int64_t)value);
	}
	if (begun)
		json_end(out, '}');
}

static void policy_text_put_secrets(struct json_out *out, const struct policy *policy,
				    bool is_saved)
{
	if (!policy->secret_count)
		return;
	json_key(out, "secrets");
	json_begin(out, '[');
	for (size_t i = 0; i < policy->secret_count; i++) {
		const struct policy_secret *secret = &policy->secrets[i];

		json_begin(out, '{');
		json_put_text(out, "name", secret->name);
		if (is_saved)
			json_put_text(out, "placeholder", secret->placeholder);
		if (is_saved && secret->sealed)
			json_put_text(out, "sealed", secret->sealed);
		put_hosts(out, "hosts", secret->hosts, secret->host_count);
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void policy_text_put_rules(struct json_out *out, const struct policy *policy)
{
	if (!policy->rule_count)
		return;
	json_key(out, "rules");
	json_begin(out, '[');
	for (size_t i = 0; i < policy->rule_count; i++) {
		json_begin(out, '{');
		json_put_text(out, "name", policy->rules[i].host.text);
		policy_text_put_words(out, "methods", policy->rules[i].methods);
		policy_text_put_words(out, "paths", policy->rules[i].paths);
		json_end(out, '}');
	}
	json_end(out, ']');
}

static void policy_text_put_all(struct json_out *out, const struct policy *policy, bool is_saved)
{
	json_begin(out, '{');
	json_put_text(out, "mode", policy_mode_word(policy->mode));
	if (policy->allow_count || policy->mode == POLICY_ALLOW)
		put_hosts(out, "allow", policy->allow, policy->allow_count);
	if (policy->inspect_count)
		put_hosts(out, "inspect", policy->inspect, policy->inspect_count);
	policy_text_put_budgets(out, &policy->budgets);
	policy_text_put_secrets(out, policy, is_saved);
	policy_text_put_rules(out, policy);
	json_end(out, '}');
}

void policy_write(struct json_out *out, const struct policy *policy)
{
	policy_text_put_all(out, policy, false);
}

void policy_save(struct json_out *out, const struct policy *policy)
{
	policy_text_put_all(out, policy, true);
}
