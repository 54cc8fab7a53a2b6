"""The API server of a cluster: who we are there (`access`, `credentials`), requests (`client`), what its
answers mean (`errors`), and a view of its objects that stays up to date (`reflector`).
"""
