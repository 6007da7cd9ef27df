// A policy from JSON and to JSON. Every entry is normalised when read, so that comparison is by
// bytes, and the shown policy is the one in force. Each list is bounded; a policy is accepted or
// refused as a whole.
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/secret.h"
#include "base/secret_text.h"
#include "codec/text.h"
#include "types/address.h"
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

static char *host_text(const char *name, const char *bits, uint16_t port)
{
	bool is_v6 = strchr(name, ':') != NULL;
	char tail[8] = "";

	if (port)
		snprintf(tail, sizeof(tail), ":%u", port);
	return mem_fmt("%s%.*s%s%s%s", is_v6 ? "[" : "", (int)(strlen(name) - strlen(bits)), name,
		       is_v6 ? "]" : "", bits, tail);
}

// "name", "*.name", "ADDRESS/BITS", each with ":port" where allowed.
static fallible host_read(struct str text, const char *where, bool is_judged,
			  struct policy_host *out)
{
	bool is_suffix = str_starts(text, "*.");
	struct policy_host host = {.is_suffix = is_suffix};
	char name[HOSTNAME_MAX + 1];
	enum hostname_kind kind;

	if (str_is(text, "*"))
		return err_hint(bad(where, "holds '*'"), "mode 'all' allows every name");
	if (is_judged && address_range_read(text, name, &host.port)) {
		host.is_literal = host.is_range = true;
		host.name = mem_str(name);
		host.text = host_text(name, strchr(name, '/'), host.port);
		*out = host;
		return OK;
	}
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
	host.text = is_suffix ? mem_fmt("*.%s", name) : host_text(name, "", host.port);
	if (is_suffix && host.port) {
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

fallible policy_secret_name(struct str name)
{
	return policy_text_is_env_name(name)
		       ? OK
		       : bad("network.secrets.name", "is no name of an environment variable");
}

static fallible secret_read_value(const struct json *from, const char *where, char **out)
{
	struct str value = {0};

	TRY(json_str(from, where, &value));
	if (value.at && !is_value(value))
		return bad(where, "is empty, longer than 16 KiB, or has control characters");
	*out = value.at ? secret_text_new(value.at, value.len) : NULL;
	return OK;
}

static fallible secret_read_hosts(const struct json *from, const char *where,
				  struct policy_secret *out)
{
	TRY(hosts_read(from, where, false, POLICY_WORDS_MAX, &out->hosts, &out->host_count));
	if (!out->host_count)
		return err_hint(bad(where, "is empty"), "name the hosts that may get the secret");
	return OK;
}

// A string names a secret of the tenant; an object has its own value and hosts.
static fallible secret_read(const struct json *from, bool is_saved, struct policy_secret *out)
{
	static const char *const known[] = {"name", "hosts", "value", NULL};
	static const char *const saved[] = {"name",   "hosts", "placeholder",
					    "sealed", "named", NULL};
	bool is_string = !is_saved && json_type(from) == JSON_STRING;
	struct str name = {0}, placeholder = {0}, sealed = {0};

	if (is_string) {
		TRY(json_str(from, "network.secrets", &name));
	} else {
		TRY(json_want(from, "network.secrets", JSON_OBJECT));
		TRY(json_only(from, is_saved ? saved : known));
		TRY(json_str(json_get(from, "name"), "network.secrets.name", &name));
		TRY(json_bool(json_get(from, "named"), "network.secrets.named", &out->is_named));
		TRY(json_str(json_get(from, "placeholder"), "network.secrets.placeholder",
			     &placeholder));
	}
	TRY(policy_secret_name(name));
	if (is_saved && !is_placeholder(placeholder))
		return bad("network.secrets.placeholder", "is none");
	out->name = mem_dup(name.at, name.len);
	out->placeholder = is_saved ? mem_dup(placeholder.at, placeholder.len) : placeholder_new();
	out->is_named |= is_string;
	if (out->is_named)
		return OK;
	TRY(secret_read_value(json_get(from, "value"), "network.secrets.value", &out->value));
	TRY(json_str(json_get(from, "sealed"), "network.secrets.sealed", &sealed));
	out->sealed = sealed.at ? mem_dup(sealed.at, sealed.len) : NULL;
	return secret_read_hosts(json_get(from, "hosts"), "network.secrets.hosts", out);
}

static struct policy_secret *secret_of(const struct policy *policy, const char *name, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(policy->secrets[i].name, name))
			return &policy->secrets[i];
	return NULL;
}

static fallible secrets_add(const struct json *list, const char *where, bool is_saved,
			    struct policy *policy)
{
	size_t room = policy->secret_count + json_count(list);

	if (room > POLICY_SECRETS_MAX)
		return err_new(INVALID, "bad_field", "'%s' has more than %d entries", where,
			       POLICY_SECRETS_MAX);
	policy->secrets = mem_grow(policy->secrets, room + 1, sizeof(*policy->secrets));
	for (size_t i = 0; i < json_count(list); i++) {
		struct policy_secret *secret = &policy->secrets[policy->secret_count++];

		*secret = (struct policy_secret){0};
		TRY(secret_read(json_at(list, i), is_saved, secret));
		if (secret_of(policy, secret->name, policy->secret_count - 1))
			return bad(where, "names one secret twice");
	}
	return OK;
}

static fallible secrets_read(const struct json *list, bool is_saved, struct policy *policy)
{
	if (!list)
		return OK;
	TRY(json_want(list, "network.secrets", JSON_ARRAY));
	return secrets_add(list, "network.secrets", is_saved, policy);
}

fallible policy_add_named(const struct json *names, struct policy *policy)
{
	if (!names)
		return OK;
	TRY(json_want(names, "secrets", JSON_ARRAY));
	for (size_t i = 0; i < json_count(names); i++)
		TRY(json_want(json_at(names, i), "secrets", JSON_STRING));
	return secrets_add(names, "secrets", false, policy);
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

// Copies a value that was not sent again, for the hosts that it had.
static fallible secret_inherit_value(struct policy_secret *to, const struct policy_secret *from)
{
	if (to->value)
		return OK;
	if (!from || !from->value)
		return err_hint(err_new(INVALID, "secret_without_value",
					"the secret %s has no value", to->name),
				"send 'value' with it: values are never shown");
	for (size_t i = 0; i < to->host_count; i++)
		if (!is_covered(from->hosts, from->host_count, &to->hosts[i]))
			return err_hint(err_new(INVALID, "secret_without_value",
						"the secret %s is not for %s so far", to->name,
						to->hosts[i].text),
					"send 'value' again to let it go to other hosts");
	to->value = secret_text_new(from->value, strlen(from->value));
	to->sealed = from->sealed ? mem_str(from->sealed) : NULL;
	return OK;
}

static fallible secret_inherit(struct policy_secret *to, const struct policy_secret *from)
{
	if (!to->is_named)
		TRY(secret_inherit_value(to, from && !from->is_named ? from : NULL));
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

		if (secret->is_named && !is_saved) {
			json_add_text(out, secret->name);
			continue;
		}
		json_begin(out, '{');
		json_put_text(out, "name", secret->name);
		if (is_saved)
			json_put_text(out, "placeholder", secret->placeholder);
		if (is_saved && secret->sealed)
			json_put_text(out, "sealed", secret->sealed);
		if (secret->is_named)
			json_put_bool(out, "named", true);
		else
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

// ----------------------------------------------------------------------------- secrets of a tenant

#define FORMAT_MAX 1024

static bool is_field_name(struct str text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    c != '-' && c != '_' && c != '.')
			return false;
	}
	return text.len > 0 && text.len <= POLICY_SECRET_NAME_MAX;
}

// Headers that the proxy itself writes, or that frame the request.
static bool is_reserved_header(struct str name)
{
	static const char *const reserved[] = {
		"host",	   "content-length", "transfer-encoding", "connection", "te",
		"upgrade", "expect",	     "accept-encoding",	  "trailer"};

	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		if (str_eq_nocase(name, str_of(reserved[i])))
			return true;
	return false;
}

static fallible form_read_header(const struct json *header, struct policy_secret *out)
{
	static const char *const known[] = {"name", "format", NULL};
	struct str name = {0}, format = {0};
	const char *mark;

	TRY(json_want(header, "header", JSON_OBJECT));
	TRY(json_only(header, known));
	TRY(json_str(json_get(header, "name"), "header.name", &name));
	TRY(json_str(json_get(header, "format"), "header.format", &format));
	if (!is_field_name(name) || is_reserved_header(name))
		return bad("header.name", "is no header that can carry a secret");
	mark = format.at ? memmem(format.at, format.len, "{}", 2) : "";
	if (!mark || (format.at && (!is_value(format) || format.len > FORMAT_MAX)))
		return err_hint(bad("header.format", "has no {} for the secret"),
				"write 'Bearer {}' or '{}'");
	out->form = POLICY_HEADER;
	out->field = mem_dup(name.at, name.len);
	out->format = format.at ? mem_dup(format.at, format.len) : NULL;
	return OK;
}

static fallible form_read(const struct json *body, struct policy_secret *out)
{
	const struct json *header = json_get(body, "header"), *query = json_get(body, "query");
	struct str name = {0};

	if (header && query)
		return bad("header", "and 'query' exclude each other");
	if (header)
		return form_read_header(header, out);
	TRY(json_str(query, "query", &name));
	if (!name.at)
		return OK;
	if (!is_field_name(name))
		return bad("query", "is no name of a query parameter");
	out->form = POLICY_QUERY;
	out->field = mem_dup(name.at, name.len);
	return OK;
}

static fallible secret_read_body(const struct json *body, const char *name, bool is_saved,
				 struct policy_secret *out)
{
	struct str sealed = {0}, expires = {0};

	TRY(json_str(json_get(body, "expiresAt"), "expiresAt", &expires));
	if (expires.at && !text_read_time(expires, &out->expires_ms))
		return err_hint(bad("expiresAt", "is no time"), "write 2027-01-31T08:00:00Z");
	out->name = mem_str(name);
	TRY(secret_read_value(is_saved ? NULL : json_get(body, "value"), "value", &out->value));
	TRY(json_str(is_saved ? json_get(body, "sealed") : NULL, "sealed", &sealed));
	out->sealed = sealed.at ? mem_dup(sealed.at, sealed.len) : NULL;
	TRY(form_read(body, out));
	return secret_read_hosts(json_get(body, "hosts"), "hosts", out);
}

fallible policy_secret_read(const struct json *body, const char *name,
			    const struct policy_secret *old, struct policy_secret *out)
{
	static const char *const known[] = {"value", "hosts", "header", "query", "expiresAt", NULL};
	auto_policy_secret secret = {0};

	TRY(policy_secret_name(str_of(name)));
	TRY(json_want(body, "body", JSON_OBJECT));
	TRY(json_only(body, known));
	TRY(secret_read_body(body, name, false, &secret));
	TRY(secret_inherit_value(&secret, old));
	*out = secret;
	secret = (struct policy_secret){0};
	return OK;
}

fallible policy_secret_load(const struct json *saved, const char *name, struct policy_secret *out)
{
	auto_policy_secret secret = {0};

	TRY(secret_read_body(saved, name, true, &secret));
	*out = secret;
	secret = (struct policy_secret){0};
	return OK;
}

void policy_secret_write(struct json_out *out, const struct policy_secret *secret, bool is_saved)
{
	put_hosts(out, "hosts", secret->hosts, secret->host_count);
	if (secret->form == POLICY_HEADER) {
		json_key(out, "header");
		json_begin(out, '{');
		json_put_text(out, "name", secret->field);
		json_put_text(out, "format", secret->format ? secret->format : "{}");
		json_end(out, '}');
	}
	if (secret->form == POLICY_QUERY)
		json_put_text(out, "query", secret->field);
	if (secret->expires_ms)
		json_put_time(out, "expiresAt", secret->expires_ms);
	if (is_saved && secret->sealed)
		json_put_text(out, "sealed", secret->sealed);
}
