def hostfile(hosts, slots):
    return "".join(f"{host} slots={slots}\n" for host in hosts)
