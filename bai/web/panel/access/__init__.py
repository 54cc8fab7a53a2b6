"""Who looks at a page: `cookies` keep what they logged in with, `kept_identity` is that of an identity
provider, `visitor` asks again who that is with each request, `same_origin` turns away what other sites have
browsers send.
"""
