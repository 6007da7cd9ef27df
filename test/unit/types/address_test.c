#include "types/address.h"

#include <string.h>

#include "tap.h"

static bool is_global(const char *text)
{
	struct address address;

	return address_read(str_of(text), &address) && address_is_global(&address);
}

static bool is_listed(const char *list, const char *text, uint16_t port)
{
	struct address address;

	return address_read(str_of(text), &address) &&
	       address_is_listed(str_of(list), &address, port);
}

TEST(world, "NET-7: global addresses are global")
{
	static const char *const all[] = {
		"1.1.1.1",	"9.255.255.255",  "11.0.0.0",	      "100.63.255.255",
		"100.128.0.0",	"172.15.0.1",	  "172.32.0.1",	      "192.0.1.1",
		"198.17.0.1",	"198.20.0.1",	  "223.255.255.1",    "2606:4700::1111",
		"2001:db9::1",	"2001:1::1",	  "3fff:1000::1",     "192.88.98.1",
		"64:ff9b:2::1", "::ffff:1.1.1.1", "64:ff9b::8.8.8.8", "2002:0808:0808::1"};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		CHECK(is_global(all[i]));
}

TEST(own, "NET-7: those of a host and its networks are not, in any form")
{
	static const char *const all[] = {"0.0.0.0",
					  "0.1.2.3",
					  "10.255.1.1",
					  "100.64.0.1",
					  "100.127.255.255",
					  "127.0.0.1",
					  "127.255.0.1",
					  "169.254.169.254",
					  "172.16.0.1",
					  "172.31.9.9",
					  "192.0.0.8",
					  "192.0.2.1",
					  "192.168.0.1",
					  "198.18.0.1",
					  "198.19.255.1",
					  "198.51.100.7",
					  "203.0.113.9",
					  "224.0.0.1",
					  "240.0.0.1",
					  "255.255.255.255",
					  "::",
					  "::1",
					  "fc00::1",
					  "fdff::1",
					  "fe80::1",
					  "febf::1",
					  "fec0::1",
					  "ff02::1",
					  "2001:db8::1",
					  "100::1",
					  "::ffff:10.0.0.1",
					  "::127.0.0.1",
					  "64:ff9b::a00:1",
					  "2002:7f00:1::",
					  "192.88.99.1",
					  "64:ff9b:1::808:808",
					  "64:ff9b:1:ffff::1",
					  "2001::1",
					  "2001:0:4136:e378::1",
					  "::ffff:0:8.8.8.8",
					  "3fff::1",
					  "3fff:fff::1",
					  "5f00::1",
					  "2a00::5efe:127.0.0.1",
					  "2a00::200:5efe:10.0.0.1"};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		CHECK(!is_global(all[i]));
}

TEST(inside, "an IPv4 address embedded in an IPv6 one is found")
{
	static const char *const all[] = {"64:ff9b::9.8.7.6", "2002:0908:0706::1", "::ffff:9.8.7.6",
					  "2a00::5efe:9.8.7.6"};
	struct address address, inner;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		CHECK(address_read(str_of(all[i]), &address));
		CHECK(address_carries(&address, &inner) && !inner.is_v6);
		CHECK(!memcmp(inner.at, (const uint8_t[]){9, 8, 7, 6}, 4));
	}
	CHECK(address_read(STR("2606:4700::1111"), &address) && !address_carries(&address, &inner));
	CHECK(address_read(STR("9.8.7.6"), &address) && !address_carries(&address, &inner));
}

TEST(list, "an exception holds for its addresses and its port, and for no other")
{
	const char *list = "127.0.0.1:9000, 10.0.0.0/8 ,[::1]:443,fd00::/8,[fe80::]/10:80";

	CHECK(is_listed(list, "127.0.0.1", 9000));
	CHECK(!is_listed(list, "127.0.0.1", 9001));
	CHECK(!is_listed(list, "127.0.0.2", 9000));
	CHECK(is_listed(list, "10.9.8.7", 1));
	CHECK(!is_listed(list, "11.0.0.0", 1));
	CHECK(is_listed(list, "::1", 443));
	CHECK(!is_listed(list, "::1", 80));
	CHECK(is_listed(list, "fd12::1", 80));
	CHECK(is_listed(list, "fe80::1", 80));
	CHECK(!is_listed(list, "fe80::1", 81));
	CHECK(!is_listed(list, "::ffff:10.0.0.1", 1));
	CHECK(!is_listed("", "127.0.0.1", 9000));
}

TEST(malformed, "a list that cannot be read is refused as a whole")
{
	static const char *const bad[] = {
		"x",	     "10.0.0.0/33",   "10.0.0.0/",  "1.2.3",	 "[::1",	"[::1]443",
		"1.2.3.4:0", "1.2.3.4:65536", "fd00::/129", "1.2.3.4,,", "1.2.3.4/8/8", "[]:1"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK(!address_list_is_valid(str_of(bad[i])));
	CHECK(address_list_is_valid(str_of("")));
	CHECK(address_list_is_valid(str_of("1.2.3.4, ::1, fd00::/8, 10.0.0.0/8:443")));
}

TEST(names, "a name of the list is found whatever its case")
{
	const char *list = "store.lan=192.168.1.7, v6.lan = ::1";
	struct address address;
	char text[ADDRESS_TEXT];

	CHECK(address_of_name(str_of(list), STR("Store.LAN"), &address));
	address_write(&address, text);
	CHECK(!strcmp(text, "192.168.1.7"));
	CHECK(address_of_name(str_of(list), STR("v6.lan"), &address) && address.is_v6);
	CHECK(!address_of_name(str_of(list), STR("lan"), &address));
	CHECK(address_names_are_valid(str_of(list)));
	CHECK(!address_names_are_valid(str_of("store.lan")));
	CHECK(!address_names_are_valid(str_of("store.lan=other.lan")));
	CHECK(!address_names_are_valid(str_of("=1.2.3.4")));
}
