// Judges connections and requests by a policy. Names come in the form of types/hostname and are
// compared byte by byte. Everything that no entry names is denied; the reason says which part did
// not match.
#include "types/policy.h"

#include <string.h>

#include "base/mem.h"
#include "base/secret_text.h"
#include "codec/text.h"
#include "types/address.h"

#define PATH_MAX_LEN (32 * 1024)

static const char *const modes[] = {"off", "allow", "all"};

const char *policy_mode_word(enum policy_mode mode)
{
	return modes[mode];
}

static void host_done(struct policy_host *host)
{
	free(host->text);
	free(host->name);
}

static void hosts_done(struct policy_host *hosts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		host_done(&hosts[i]);
	free(hosts);
}

void policy_secret_done(struct policy_secret *secret)
{
	secret_text_free(secret->value);
	free(secret->sealed);
	free(secret->name);
	free(secret->placeholder);
	free(secret->field);
	free(secret->format);
	hosts_done(secret->hosts, secret->host_count);
	*secret = (struct policy_secret){0};
}

void policy_done(struct policy *policy)
{
	hosts_done(policy->allow, policy->allow_count);
	hosts_done(policy->inspect, policy->inspect_count);
	for (size_t i = 0; i < policy->rule_count; i++) {
		host_done(&policy->rules[i].host);
		mem_free_list(policy->rules[i].methods);
		mem_free_list(policy->rules[i].paths);
	}
	free(policy->rules);
	for (size_t i = 0; i < policy->secret_count; i++)
		policy_secret_done(&policy->secrets[i]);
	free(policy->secrets);
	*policy = POLICY_INIT(POLICY_OFF);
}

struct policy *policy_new(struct policy *from)
{
	struct policy *policy = mem_new_of(struct policy);

	*policy = *from;
	*from = POLICY_INIT(POLICY_OFF);
	return policy;
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	policy_done(policy);
	free(policy);
}

static char *text_copy(const char *text)
{
	return text ? mem_str(text) : NULL;
}

static struct policy_host host_copy(const struct policy_host *host)
{
	struct policy_host copy = *host;

	copy.text = mem_str(host->text);
	copy.name = mem_str(host->name);
	return copy;
}

static struct policy_host *hosts_copy(const struct policy_host *hosts, size_t count)
{
	struct policy_host *copy = count ? mem_new(count * sizeof(*copy)) : NULL;

	for (size_t i = 0; i < count; i++)
		copy[i] = host_copy(&hosts[i]);
	return copy;
}

static char **words_copy(char **words)
{
	size_t count = 0;
	char **copy;

	if (!words)
		return NULL;
	while (words[count])
		count++;
	copy = mem_new((count + 1) * sizeof(*copy));
	for (size_t i = 0; i < count; i++)
		copy[i] = mem_str(words[i]);
	return copy;
}

static struct policy_secret secret_copy(const struct policy_secret *from)
{
	struct policy_secret copy = *from;

	copy.name = text_copy(from->name);
	copy.placeholder = text_copy(from->placeholder);
	copy.value = from->value ? secret_text_new(from->value, strlen(from->value)) : NULL;
	copy.sealed = text_copy(from->sealed);
	copy.hosts = hosts_copy(from->hosts, from->host_count);
	copy.field = text_copy(from->field);
	copy.format = text_copy(from->format);
	return copy;
}

void policy_fill_named(struct policy_secret *entry, const struct policy_secret *from)
{
	struct policy_secret filled = from ? secret_copy(from) : (struct policy_secret){0};

	free(filled.name);
	free(filled.placeholder);
	free(take_ptr(filled.sealed));
	filled.name = take_ptr(entry->name);
	filled.placeholder = take_ptr(entry->placeholder);
	filled.is_named = true;
	policy_secret_done(entry);
	*entry = filled;
}

void policy_copy(const struct policy *policy, struct policy *out)
{
	struct policy copy = *policy;

	copy.allow = hosts_copy(policy->allow, policy->allow_count);
	copy.inspect = hosts_copy(policy->inspect, policy->inspect_count);
	copy.rules = mem_new((policy->rule_count + 1) * sizeof(*copy.rules));
	for (size_t i = 0; i < policy->rule_count; i++)
		copy.rules[i] = (struct policy_rule){
			.host = host_copy(&policy->rules[i].host),
			.methods = words_copy(policy->rules[i].methods),
			.paths = words_copy(policy->rules[i].paths),
		};
	copy.secrets = mem_new((policy->secret_count + 1) * sizeof(*copy.secrets));
	for (size_t i = 0; i < policy->secret_count; i++)
		copy.secrets[i] = secret_copy(&policy->secrets[i]);
	*out = copy;
}

static bool host_matches(const struct policy_host *host, const char *name)
{
	if (host->is_range)
		return address_range_has(host->name, name);
	return host->is_suffix
		       ? strcmp(host->name, name) != 0 && hostname_is_beneath(name, host->name)
		       : !strcmp(host->name, name);
}

static bool any_matches(const struct policy_host *hosts, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (host_matches(&hosts[i], name))
			return true;
	return false;
}

static bool port_matches(const struct policy_host *host, uint16_t port)
{
	if (!host->port)
		return host->is_range || port == 80 || port == 443;
	return host->port == port;
}

// The entry that allows it. *out_named: an entry has the name, if not the port.
static const struct policy_host *entry_for(const struct policy *policy, enum hostname_kind kind,
					   const char *name, uint16_t port, bool *out_named)
{
	*out_named = false;
	for (size_t i = 0; i < policy->allow_count; i++) {
		const struct policy_host *host = &policy->allow[i];

		if (host->is_literal != (kind == HOSTNAME_LITERAL) || !host_matches(host, name))
			continue;
		if (port_matches(host, port))
			return host;
		*out_named = true;
	}
	return NULL;
}

bool policy_sees(const struct policy *policy)
{
	return policy->inspect_count || policy->secret_count;
}

bool policy_inspects(const struct policy *policy, const char *name)
{
	if (any_matches(policy->inspect, policy->inspect_count, name))
		return true;
	for (size_t i = 0; i < policy->secret_count; i++)
		if (any_matches(policy->secrets[i].hosts, policy->secrets[i].host_count, name))
			return true;
	return false;
}

struct policy_verdict policy_judge(const struct policy *policy, enum hostname_kind kind,
				   const char *name, uint16_t port)
{
	struct policy_verdict verdict = {0};
	const struct policy_host *entry;
	bool named;

	if (policy->mode == POLICY_OFF) {
		verdict.reason = "mode_off";
		return verdict;
	}
	if (kind == HOSTNAME_BAD || !name[0]) {
		verdict.reason = "no_name";
		return verdict;
	}
	entry = entry_for(policy, kind, name, port, &named);
	verdict.allow = entry || policy->mode == POLICY_ALL;
	if (entry)
		verdict.rule = entry->text;
	else if (verdict.allow)
		verdict.rule = modes[POLICY_ALL];
	else
		verdict.reason = named ? "port_not_allowed" : "not_allowed";
	verdict.inspect = verdict.allow && kind == HOSTNAME_NAME && policy_inspects(policy, name);
	return verdict;
}

struct policy_verdict policy_judge_ech(const struct policy *policy, enum hostname_kind kind,
				       const char *name, uint16_t port)
{
	struct policy_verdict verdict = policy_judge(policy, kind, name, port);

	// Where TLS is terminated here, so is the hidden name.
	if (verdict.allow && !verdict.inspect && policy->mode != POLICY_ALL)
		verdict = (struct policy_verdict){.reason = "ech"};
	return verdict;
}

bool policy_knows(const struct policy *policy, enum hostname_kind kind, const char *name)
{
	bool named;

	if (policy->mode == POLICY_OFF || kind != HOSTNAME_NAME || !name[0])
		return false;
	return policy->mode == POLICY_ALL || entry_for(policy, kind, name, 0, &named) || named;
}

bool policy_has_rules(const struct policy *policy, const char *name)
{
	bool bound = false;

	for (size_t i = 0; i < policy->rule_count; i++) {
		const struct policy_rule *rule = &policy->rules[i];

		if (!host_matches(&rule->host, name))
			continue;
		if (!rule->methods && !rule->paths)
			return false;
		bound = true;
	}
	return bound;
}

static bool is_dots(struct str segment)
{
	const char *end = memchr(segment.at, ';',
				 segment.len); // some servers treat the rest as parameters

	if (end)
		segment.len = (size_t)(end - segment.at);
	return str_is(segment, ".") || str_is(segment, "..");
}

// The path with its escapes decoded. False: a server may read another path in it.
static bool plain_path(struct str target, struct buf *out)
{
	struct str path = {0}, rest = target, segment;

	str_cut(&rest, '?', &path);
	if (!path.len || path.at[0] != '/' || memchr(path.at, '#', path.len))
		return false;
	for (size_t i = 0; i + 2 < path.len; i++)
		if (path.at[i] == '%' && path.at[i + 1] == '2' && (path.at[i + 2] | 0x20) == 'f')
			return false;
	if (!text_unpercent(out, path))
		return false;
	for (size_t i = 0; i < out->len; i++)
		if ((uint8_t)out->at[i] < ' ' || strchr("\\%\x7f", out->at[i]))
			return false;
	rest = str_skip(buf_view(out), 1);
	while (str_cut(&rest, '/', &segment))
		if (is_dots(segment) || (!segment.len && rest.at))
			return false;
	return true;
}

static bool path_matches(const char *pattern, struct str path)
{
	size_t len = strlen(pattern);

	if (len && pattern[len - 1] == '*')
		return path.len >= len - 1 && !memcmp(path.at, pattern, len - 1);
	return str_is(path, pattern);
}

static bool has_method(char **methods, struct str method)
{
	if (!methods)
		return true;
	for (; *methods; methods++)
		if (str_is(method, *methods))
			return true;
	return false;
}

// An ambiguous `path` is empty: it matches "any", and no pattern.
static bool has_path(char **paths, struct str path)
{
	if (!paths)
		return true;
	for (; *paths; paths++)
		if (!strcmp(*paths, "/*") || (path.len && path_matches(*paths, path)))
			return true;
	return false;
}

bool policy_judge_request(const struct policy *policy, const char *name, struct str method,
			  struct str target, const char **out_reason)
{
	auto_buf path = BUF_INIT(PATH_MAX_LEN);
	const char *reason = NULL;
	bool is_plain;

	if (!policy_has_rules(policy, name))
		return true;
	is_plain = plain_path(target, &path);
	if (!is_plain)
		buf_clear(&path);
	for (size_t i = 0; i < policy->rule_count; i++) {
		const struct policy_rule *rule = &policy->rules[i];

		if (!host_matches(&rule->host, name))
			continue;
		if (!has_method(rule->methods, method))
			reason = reason ? reason : "method_not_allowed";
		else if (!has_path(rule->paths, buf_view(&path)))
			reason = is_plain ? "path_not_allowed" : "path_ambiguous";
		else
			return true;
	}
	*out_reason = reason;
	return false;
}

bool policy_secret_is_for(const struct policy_secret *secret, const char *name, int64_t now_ms)
{
	return secret->value && any_matches(secret->hosts, secret->host_count, name) &&
	       (!secret->expires_ms || now_ms < secret->expires_ms);
}

bool policy_set_secret(struct policy *policy, const char *name, struct str value)
{
	for (size_t i = 0; i < policy->secret_count; i++) {
		struct policy_secret *secret = &policy->secrets[i];

		if (strcmp(secret->name, name) != 0)
			continue;
		secret_text_free(secret->value);
		secret->value = secret_text_new(value.at, value.len);
		return true;
	}
	return false;
}

// The meaning of each reason, and the change of the policy that would allow it.
static const struct {
	const char *reason, *words;
	enum { HINT_NAME, HINT_HOST, HINT_RULE, HINT_BUDGET, HINT_NONE } form;
	const char *option;
} denials[] = {
	{"not_allowed", "no entry of the policy names it", HINT_NAME, "--allow"},
	{"port_not_allowed", "the policy names it, but not this port", HINT_NAME, "--allow"},
	{"mode_off", "the policy lets nothing out", HINT_NAME, "--allow"},
	{"ech", "the client hides the name that it wants", HINT_HOST, "--inspect"},
	{"not_inspected", "rules bind its requests, and none can be seen here", HINT_RULE, NULL},
	{"not_counted", "its requests are counted, and none can be seen here", HINT_BUDGET,
	 "requests"},
	{"not_http", "it speaks neither TLS nor HTTP, and has to here", HINT_NONE, NULL},
	{"method_not_allowed", "no rule allows this method", HINT_RULE, NULL},
	{"path_not_allowed", "no rule allows this path", HINT_RULE, NULL},
	{"path_ambiguous", "servers may read this path differently", HINT_RULE, NULL},
	{"budget_connections", NULL, HINT_BUDGET, "connections"},
	{"budget_requests", NULL, HINT_BUDGET, "requests"},
	{"budget_bytes_out", NULL, HINT_BUDGET, "bytesOut"},
	{"budget_bytes_in", NULL, HINT_BUDGET, "bytesIn"},
};
#define DENIALS (sizeof(denials) / sizeof(*denials))

const char *policy_words(const char *reason)
{
	for (size_t i = 0; i < DENIALS; i++)
		if (denials[i].words && !strcmp(denials[i].reason, reason))
			return denials[i].words;
	return "the policy of this sandbox does not allow it";
}

static void types_policy_put_place(struct buf *out, const char *name, uint16_t port)
{
	bool is_v6 = strchr(name, ':') != NULL;

	buf_fmt(out, "%s%s%s", is_v6 ? "[" : "", name, is_v6 ? "]" : "");
	if (port && port != 80 && port != 443)
		buf_fmt(out, ":%u", port);
}

void policy_hint(struct buf *out, const char *box, const char *name, uint16_t port,
		 const char *reason)
{
	size_t i = 0;

	while (i < DENIALS && strcmp(denials[i].reason, reason) != 0)
		i++;
	if (i == DENIALS || denials[i].form == HINT_NONE ||
	    (!*name && denials[i].form != HINT_BUDGET))
		return;
	buf_fmt(out, "cove policy %s ", box);
	switch (denials[i].form) {
	case HINT_NAME:
		buf_fmt(out, "%s ", denials[i].option);
		types_policy_put_place(out, name, port);
		break;
	case HINT_HOST:
		buf_fmt(out, "%s %s", denials[i].option, name);
		break;
	case HINT_RULE:
		buf_fmt(out, "--rule '* %s'", name);
		break;
	case HINT_BUDGET:
		buf_fmt(out, "--budget %s=none", denials[i].option);
		break;
	case HINT_NONE:
		break;
	}
}
