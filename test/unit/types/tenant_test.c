#include "types/tenant.h"

#include "tap.h"
#include "types/key.h"

static const char *verdict(const char *text, struct tenant *out)
{
	static char reason[40];
	auto_json json = NULL;
	auto_err err = json_read(str_of(text), &json);

	if (!err)
		err = tenant_read(json, out);
	snprintf(reason, sizeof(reason), "%s", err ? err_reason(err) : "ok");
	return reason;
}

TEST(retention, "a tenant is read whole, or not at all")
{
	auto_tenant tenant = {.name = "a", .created_ms = 5};

	CHECK_STR(verdict("{\"quota\":{\"boxes\":3,\"memoryMB\":2,\"cpus\":1.5},\"host\":true,"
			  "\"templates\":[\"x\",\"*\",\"y\"]}",
			  &tenant),
		  "ok");
	CHECK(tenant.quota.boxes == 3 && tenant.quota.memory == 2 << 20 && tenant.host);
	CHECK(tenant.quota.cpu_milli == 1500 && tenant.all_templates && tenant.template_count == 2);
	CHECK_STR(verdict("{\"quota\":{\"boxes\":0}}", &tenant), "bad_field");
	CHECK_STR(verdict("{\"qouta\":{}}", &tenant), "unknown_field");
	CHECK_STR(verdict("{\"templates\":[\"../x\"]}", &tenant), "bad_field");
	CHECK(tenant.quota.boxes == 3 && tenant.template_count == 2);
	CHECK_STR(verdict("{}", &tenant), "ok");
	CHECK(!tenant.quota.boxes && !tenant.host && !tenant.template_count &&
	      !tenant.all_templates);
	CHECK_STR(tenant.name, "a");
	CHECK(tenant.created_ms == 5);
}

TEST(network, "the network of a tenant is all unless the operator says less")
{
	auto_tenant tenant = {0};
	auto_json json = NULL;

	CHECK(tenant_network(&tenant) == POLICY_ALL);
	CHECK_OK(json_read(STR("{\"network\":\"allow\"}"), &json));
	CHECK_OK(tenant_read(json, &tenant));
	CHECK(tenant_network(&tenant) == POLICY_ALLOW);
	CHECK_STR(verdict("{\"network\":\"some\"}", &tenant), "bad_field");
}

TEST(template, "the default template of a tenant is a name, or none")
{
	auto_tenant tenant = {0};

	CHECK_STR(verdict("{\"defaultTemplate\":\"base\"}", &tenant), "ok");
	CHECK_STR(tenant.template, "base");
	CHECK_STR(verdict("{\"defaultTemplate\":\"../x\"}", &tenant), "bad_field");
	CHECK_STR(verdict("{}", &tenant), "ok");
	CHECK_STR(tenant.template, "");
}

TEST(images, "a tenant may pull every image, or those of its patterns")
{
	auto_tenant tenant = {0};
	struct reference image;

	CHECK_OK(reference_read(STR("ghcr.io/a/b:1"), &image));
	CHECK_STR(verdict("{}", &tenant), "ok");
	CHECK(tenant_may_pull(&tenant, &image));
	CHECK_STR(verdict("{\"images\":[\"docker.io/*\",\"ghcr.io/a/*\"]}", &tenant), "ok");
	CHECK(tenant_may_pull(&tenant, &image));
	CHECK_STR(verdict("{\"images\":[\"docker.io/*\"]}", &tenant), "ok");
	CHECK(!tenant_may_pull(&tenant, &image));
	CHECK_STR(verdict("{\"images\":[]}", &tenant), "ok");
	CHECK(!tenant_may_pull(&tenant, &image));
	CHECK_STR(verdict("{\"images\":[\"a b/\"]}", &tenant), "bad_field");
}

TEST(again, "what is written is read again")
{
	auto_tenant tenant = {.name = "a"}, again = {.name = "a"};
	auto_buf text = BUF_INIT(4096);
	struct json_out out = json_to(&text);

	CHECK_STR(verdict("{\"quota\":{\"diskMB\":7,\"execs\":9,\"cpus\":0.25},\"templates\":["
			  "\"t\"]}",
			  &tenant),
		  "ok");
	json_begin(&out, '{');
	tenant_put_rights(&out, &tenant);
	json_end(&out, '}');
	CHECK_STR(verdict(text.at, &again), "ok");
	CHECK(again.quota.disk == tenant.quota.disk && again.quota.execs == 9 &&
	      again.quota.cpu_milli == 250 && !again.quota.boxes);
	CHECK_STR(again.templates[0], "t");
}

TEST(names, "a tenant's name has no dot, no slash, no capital")
{
	CHECK(who_is_tenant(STR("a")) && who_is_tenant(STR("a-1")) && who_is_tenant(STR("0")));
	CHECK(!who_is_tenant(STR("")) && !who_is_tenant(STR("-a")) && !who_is_tenant(STR("a.b")));
	CHECK(!who_is_tenant(STR("a/b")) && !who_is_tenant(STR("A")));
	CHECK(!who_is_tenant(STR("abcdefghijklmnopqrstuvwxyz012345")));
}

TEST(keys, "a key's secret is 256 bits, its hash is what is kept, its bearer has its scopes")
{
	struct key one = {.tenant = "a", .scopes = WHO_MAY_READ}, two = one;
	char a[KEY_TEXT_LEN + 1], b[KEY_TEXT_LEN + 1];
	uint8_t hash[SECRET_HASH];
	struct who who;

	key_make(&one, a);
	key_make(&two, b);
	CHECK(strlen(a) == 69 && !strncmp(a, "cove_", 5) && strcmp(a, b) != 0);
	CHECK(strlen(one.id) == WHO_KEY_LEN && strcmp(one.id, two.id) != 0);
	secret_sha256(a, strlen(a), hash);
	CHECK(secret_equal(hash, one.hash, sizeof(hash)));
	who = key_who(&one);
	CHECK(who.role == WHO_TENANT && who.scopes == WHO_MAY_READ && !who.may_host);
	CHECK_STR(who.tenant, "a");
	CHECK_STR(who.key, one.id);
}

TEST(admins, "only an admin without a tenant and without a sandbox is as good as the operator")
{
	struct key key = {.scopes = WHO_MAY_ALL};

	CHECK(key_who(&key).role == WHO_OPERATOR);
	key.scopes = WHO_MAY_ALL & ~WHO_MAY_ADMIN;
	CHECK(key_who(&key).role == WHO_TENANT);
	key.scopes = WHO_MAY_ALL;
	key.tenant[0] = 'a';
	CHECK(key_who(&key).role == WHO_TENANT);
	key.tenant[0] = 0;
	key.box[0] = 'b';
	CHECK(key_who(&key).role == WHO_TENANT);
}
